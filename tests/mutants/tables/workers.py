"""Jobs in the hands of workers elsewhere: leases, verdicts, caps, waking."""

from tests.mutants.mutant import Mutant, in_file

LIFE = "tests/service/test_workers.py"
RULES = "tests/service/test_worker_rules.py"
SLICES = "tests/unit/functory/test_slices.py"

claims = in_file("functory/workers/claims.py", f"{LIFE} {RULES}")
line = in_file("functory/workers/taker_line.py", f"{LIFE} {RULES}")
takers = in_file("functory/workers/takers.py", f"{LIFE} {RULES}")
handout = in_file("functory/workers/handout.py", f"{LIFE} {RULES}")
worker_queue = in_file("functory/workers/worker_queue.py", LIFE)
reports = in_file("functory/workers/reports.py", f"{LIFE} {RULES}")
operations = in_file("functory/operations/workers.py", "tests/service/test_report_and_take.py")
OVERDUE = "tests/service/test_worker_reports.py -k 'too_long or at_its_deadline'"
upkeep = in_file("functory/daemon/upkeep.py", OVERDUE)
wiring = in_file("functory/daemon/parts.py", "tests/service/test_report_and_take.py")
ELSEWHERE = "tests/service/test_held_elsewhere.py"
LISTS = "tests/service/test_waiting_lists.py"
elsewhere = in_file("functory/workers/elsewhere.py", ELSEWHERE)
held = in_file("functory/workers/held_jobs.py", "tests/unit/functory/test_held_jobs.py")
gates = in_file("functory/execution/straight/type_gates.py", RULES)
unasked = in_file("functory/workers/unasked.py", "tests/web/test_unasked.py")
asked = in_file("functory/workers/asked_types.py", "tests/web/test_unasked.py")
slices = in_file("functory/loops/slices.py", SLICES)
raised = in_file("functory/queue/raised.py", "tests/service/test_queue_raised.py -k trace_begins")
keepalive = in_file("functory/queue/keepalive.py", "tests/unit/functory/test_keepalive.py")

MUTANTS: list[Mutant] = [
    operations(
        "what was taken with a report that failed is kept until its lease lapses",
        "            await return_taken(service, who, claim.jobs)\n",
        "            pass\n",
    ),
    operations(
        "what was taken before more could be is kept until its lease lapses",
        "        await return_taken(service, who, jobs)\n",
        "        pass\n",
    ),
    upkeep("what is held for too long is handed out again at once", "        await self._workers.end_overdue()\n", ""),
    claims(
        "another daemon finds lapsed what is held for too long",
        "self.beyond_ms if lease_ms == _timeout_ms(handler) else 0",
        "0",
        tests=OVERDUE,
    ),
    reports("a report that comes twice makes its jobs twice", " and held.ending is None])", "])"),
    line("one who asks while others are served is not tried", " or number >= newcomer", ""),
    handout(
        "who asks after a long time is not served", "            line.coming += 1\n", "            line.coming += 0\n"
    ),
    worker_queue("workers of a deleted tenant wait on", "        self._handout.end_tenant(tenant)\n", ""),
    worker_queue("jobs of a deleted tenant count", "        self._claims.held.drop_tenant(tenant)\n", ""),
    worker_queue(
        "a daemon is not told of the end of what it handed out",
        "            self._tell(others)\n",
        "            pass\n",
        tests=ELSEWHERE,
    ),
    elsewhere("a lost word costs a place", "await self.check(held)", "()"),
    elsewhere("what has lapsed counts for ever", "self._held.lapsed(self._clock.now_ms())", "[]"),
    claims("jobs that are used up hide the next", "_MOST_CLAIMS: Final = 100", "_MOST_CLAIMS: Final = 1", tests=LISTS),
    line("who does not wait stands in a line", "        if order.wait_s and order", "        if order", tests=LISTS),
    held("memory of ended jobs is kept as long as their leases", " > 2 * len(self._held) + _SPARE", " > 1 << 40"),
    operations("at its cap a worker gets nothing with its report", "else not order.wait_s)", "else False)"),
    operations("near its cap a worker gets small batches", "(has_caps if jobs else", "(False if jobs else"),
    operations(
        "a report is recorded although its order is refused",
        '    """\n    _check_order(order)\n    taking',
        '    """\n    taking',
    ),
    operations(
        "jobs are taken before their report is on its way",
        "    try:\n        verdicts = await report(",
        "    begin()\n    try:\n        verdicts = await report(",
    ),
    wiring("a report and its take are two commits", ", waits_a_turn=True", ""),
    operations(
        "verdicts are lost if nothing can be taken",
        "except (QuotaExceeded, StoreUnavailable):\n            taken",
        "except StoreUnavailable:\n            taken",
    ),
    operations("jobs come with what is left of their lease", "(old if 3 * waited_ms >", "(old if 0 * waited_ms >"),
    operations("reports are kept while a worker waits", "        reports.clear()\n", ""),
    claims(
        "workers get jobs of any type", " or handler.lang != WORKER", "", tests=RULES, equivalent="_candidates asks"
    ),
    claims("caps do not hold for workers", ", await self._find_room(jobtype))", ")", tests=RULES),
    claims(
        "a job of workers that vanish is handed out for ever",
        "        going, exhausted = part_exhausted(jobs, retry)\n",
        "        going, exhausted = jobs, ()\n",
    ),
    claims("a job that a handler runs can be reported", " or record.job.lock != OWNER", "", tests=RULES),
    line(
        "jobs for one who has left are lost",
        "                self._claims.give_back(mine)",
        "                pass",
    ),
    takers("a closed connection gets jobs", " and self.order.is_present()", ""),
    line("patterns are not looked at", "elif await group.takes(jobtype, self._slices):", "elif group:"),
    takers(
        "reading patterns costs nothing",
        "                await slices.spend(reading_cost(pattern))\n",
        "",
        tests=SLICES,
    ),
    takers("a group counts no comparison", "            await slices.spend(glob_cost(pattern))\n", "", tests=SLICES),
    slices("a slice has no end", "        if self._spent >= SLICE:", "        if False:"),
    slices("a slice counts names", "        self._spent += work", "        self._spent += 1"),
    handout(
        "an arrival wakes nobody",
        "                line.mark([jobtype])",
        "                pass",
        tests="tests/web/test_workers.py",
    ),
    handout(
        "nothing is found that others added",
        "return self._is_stale or self._clock.monotonic_s() - self._looked_s > self._poll_s",
        "return self._looked_s < 0",
        tests=LIFE,
    ),
    line(
        "all who wait are walked through for every one that comes",
        "while heads and self.is_open and self._ready:",
        "while heads and self.is_open:",
        tests=LIFE,
    ),
    line(
        "who comes back goes before the others",
        "heapq.heappush(heads, (group.takers[0].number, patterns))",
        "heapq.heappush(heads, (-1, patterns))",
        tests=LIFE,
    ),
    reports(
        "what is recorded is forgotten",
        "return known or await",
        "return await",
        tests="tests/service/test_worker_reports.py",
    ),
    held("a delivery that is over ends the next one", "token not in (None, held.job.token)", "False"),
    held("what leaves stays counted", "        changes[tenant] -= 1", "        pass"),
    held("a type that nobody holds is counted", "        self._of_type[jobtype] -= 1", "        pass"),
    reports("a token is as good as another", "delivery.token in (None, held.job.token)", "True", tests=LIFE),
    reports(
        "a late report makes new jobs",
        "return {lease.id for lease, verdict in verdicts.items() if verdict.answer is Answer.LATE}",
        "return set()",
        tests="tests/service/test_worker_reports.py",
    ),
    reports(
        "a worker that lost its lease is told that its end counts",
        "_late(job.id) if job.id in late else _verdict",
        "_verdict",
        tests="tests/service/test_worker_storm.py",
    ),
    reports("late reports are not counted", "        self.late += ", "        _ = ", tests=LIFE),
    reports("a renewal has no end", "if left_ms is not None and left_ms <= 0:", "if False:", tests=LIFE),
    raised("a task's trace begins with how it was called", "        error.__traceback__ = trace", "        pass"),
    keepalive(
        "a renewal without an answer is waited for", "asyncio.timeout(max(left_s / 2, _LEAST_S))", "asyncio.timeout(90)"
    ),
    keepalive("a silent connection costs the lease", "max(left_s / 2, _LEAST_S)", "left_s"),
    keepalive(
        "a lapsed lease is not told",
        "for job in [job for job in due if job.until_s <= now_s]:",
        "for job in [job for job in due if job.until_s <= 0]:",
    ),
    asked(
        "a worker that asks for anything asks for this",
        "if await self._matches(pattern, type_name):\n                return",
        "if True:\n                return",
    ),
    unasked(
        "workers of other daemons do not count", "AskedTypes(await self._presence.everywhere(tenant))", "AskedTypes(())"
    ),
    unasked("types that daemons run wait for workers", "if self._lang(each) == WORKER", "if self._lang(each)"),
    unasked("a worker at work is not seen", " if not running.get(each.jobtype)]", "]"),
    unasked(
        "a type keeps its language",
        "return lang if version == each.handler_version else",
        "return lang if version else",
    ),
    asked("an old question counts", "            if asked_ms <= since_ms:", "            if False:", tests=SLICES),
    asked(
        "workers are compared with all types in one go",
        "        await self._slices.spend(glob_cost(pattern))\n",
        "",
        tests=SLICES,
    ),
    gates(
        "an answer is used until it is old",
        "        if left_s <= _RENEWED * self._life_s:",
        "        if left_s <= 0:",
        tests="tests/unit/functory/test_type_gates.py",
    ),
    gates("jobs of workers take the straight way", "return gate if is_run else", "return gate if True else"),
]

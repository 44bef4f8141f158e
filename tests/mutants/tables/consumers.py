"""Indexes that are skipped or done twice, progress that falls or runs ahead, windows without an end."""

from tests.mutants.mutant import Mutant, in_file

window = in_file("scheduler/index_window.py", "tests/property/test_index_window.py")
consumer = in_file("functory/consumers/consumer.py", "tests/unit/functory/test_consumer.py")
progress_file = in_file("store/progress_file.py", "tests/unit/functory/test_consumer.py")

wishes = in_file("functory/execution/wishes.py", "tests/unit/functory/test_wishes.py tests/service/test_pipelines.py")
led = in_file("functory/consumers/led_consumer.py", "tests/service/test_consumers.py tests/service/test_pipelines.py")
blocked = in_file(
    "functory/consumers/blocked_indexes.py",
    "tests/service/test_consumers.py tests/service/test_blocked_consumers.py",
)
PARENTS = "tests/service/test_consumers_of_parents.py"
LARGE = "tests/service/test_large_windows.py"
leaders = in_file("functory/consumers/leaders.py", "tests/service/test_consumers.py")

AGAIN = "tests/service/test_consumers_again.py"
operation = in_file("functory/operations/consumers.py", AGAIN)
at_once = in_file("functory/operations/consumers.py", "tests/web/test_consumers.py -k same_time")
in_mongo = in_file("store/mongo/records/consumers.py", "tests/contract/store/test_consumers_again.py -k mongodb")

MUTANTS: list[Mutant] = [
    at_once(
        "who makes consumers at the same time passes their bound",
        "    async with service.count_turns.of(who.tenant):\n        there",
        "    if True:\n        there",
    ),
    operation("a deletion goes on with the next consumer of the name", ", only_ending=True)", ")"),
    in_mongo(
        "the end of a consumer removes the next one of its name", '"ending": True, "window": found.get("window")', ""
    ),
    leaders("a leader ends the next consumer of a name", ", only_ending=True\n", "\n", tests=AGAIN),
    wishes("what a job follows is forgotten", 'wanted.follows.note if wanted.follows else ""', '""'),
    wishes("each follower has a write of its own", "wish.options, bool(wish.note)]", "wish.options, wish.note]"),
    wishes(
        "each try of an index makes its jobs",
        "    return wanted if job.seq is None or job.repeat or has_completed else ()",
        "    return wanted",
    ),
    wishes("an index that carries data on makes nothing", "release, Archive | Discard | Finish)", "release, Archive)"),
    wishes(
        "jobs of an index go through the journal",
        "        job.seq is not None or any(wish.unique",
        "        any(wish.unique",
    ),
    led(
        "a stage runs away from the next",
        "        return report.head - report.processed > self.terms.max_lag",
        "        return False",
    ),
    led(
        "the source is asked although nobody is free",
        " or not window.startable(window.started + 1):",
        ":",
        tests="tests/service/test_pull.py",
    ),
    led(
        "trouble with a source is not told",
        "            self._note_trouble(error)\n            return self._head",
        "            return self._head",
        tests="tests/service/test_pull.py",
    ),
    led("a failed index is passed", '        elif self.terms.on_failed == "skip":', "        elif True:"),
    blocked(
        "a cancelled job is run again",
        "        return self._blocked[end.seq] if code is Code.CANCELLED else self._rest(end.seq)",
        "        return self._rest(end.seq)",
    ),
    blocked("a cancelled index that has failed since stays blocked", " and known.code == code.value:", ":"),
    blocked("what is blocked is never tried again", "if due_s <= now_s]", "if due_s < 0]"),
    blocked(
        "the next leader does not go on with an index that blocks",
        "            if end.seq in self._unseen:\n                self._go_on(known)\n",
        "",
    ),
    blocked(
        "thousands that block are all kept in memory",
        "        if len(self._blocked) < MOST:",
        "        if True:",
        tests="tests/unit/functory/test_blocked_indexes.py",
    ),
    led(
        "thousands that failed are queued again in one write",
        "self._queue_again(due[start : start + STEP])",
        "self._queue_again(due)",
        tests=LARGE,
    ),
    led(
        "each of thousands that failed has a line in the log",
        "        if now_s - self._told_s >= _TELL_EVERY_S:",
        "        if True:",
        tests=LARGE,
    ),
    led(
        "large windows are looked at as often as small ones",
        "        if self._turn_s > now_s:\n            return False",
        "        if self._turn_s < 0:\n            return False",
        tests=LARGE,
    ),
    led("jobs that waited before are not held", "            await self._hold_older()\n", ""),
    leaders(
        "nobody takes over",
        "                if self._wants_renewal or now_s - renewed_s >= renew_s:",
        "                if self._wants_renewal:",
    ),
    leaders(
        "an index that waits for its children is done",
        "        not_over = {*report.stale, *report.paused}\n",
        "        not_over = {*report.stale}\n",
        tests=PARENTS,
    ),
    leaders(
        "a run that came too late ends an index",
        "        not_over = {*report.stale, *report.paused}\n",
        "        not_over = {*report.paused}\n",
        tests=PARENTS,
    ),
    leaders(
        "an index that carried something on is found by a look only",
        "isinstance(release, Archive | Finish | Discard)",
        "isinstance(release, Archive | Discard)",
        tests=PARENTS,
    ),
    leaders("every consumer looks at every poll", "is_time and not led.has_nothing_to_do", "True"),
    window(
        "progress jumps over a gap",
        "        if index != self._processed + 1:",
        "        if index <= self._processed:",
    ),
    window(
        "what was done ahead of a gap is forgotten",
        "            self._done.add(index)\n            return False",
        "            return False",
    ),
    window(
        "it searches ahead without an end",
        "min(head, self._processed + self.limits.max_search_ahead, ",
        "min(head, ",
    ),
    window(
        "one too many is in work",
        "        free = self.limits.max_processing - self.in_work",
        "        free = self.limits.max_processing - self.in_work + 1",
    ),
    consumer(
        "a job that is not there yet is skipped",
        "            if job is None or self._is_stopping:\n                return",
        "            if job is None or self._is_stopping:\n                self._window.start(index)\n                self._window.finish(index)\n                continue",
    ),
    consumer(
        "a start begins anew in spite of its progress",
        "self._start_index - 1 if kept is None else kept",
        "self._start_index - 1",
    ),
    consumer(
        "a worker that raises is passed over",
        "            self._failure = self._failure or error\n        self._woken.set()",
        "            pass\n        self._woken.set()",
    ),
    consumer(
        "progress is told before it is kept",
        "            await self._progress.set_processed_index(processed)\n            self._saved = processed\n",
        "            self._saved = processed\n",
    ),
    progress_file(
        "progress can fall",
        "max(processed, excluded.processed)",
        "excluded.processed",
    ),
]

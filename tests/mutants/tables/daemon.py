"""A daemon's promises over its life: stop, start, leases, purge, the way in and the way out."""

from tests.mutants.mutant import Mutant, in_file

PROMISES = "tests/service/test_promises.py"
LEASES = "tests/service/test_leases.py tests/service/test_promises.py"
INTAKE = "tests/service/test_backlog.py tests/service/test_store_away.py"
OUTBOX = "tests/unit/functory/test_outbox.py tests/unit/functory/test_outbox_turns.py tests/service/test_store_away.py"

daemon = in_file("functory/daemon/daemon.py", PROMISES)
upkeep = in_file("functory/daemon/upkeep.py", PROMISES)
served = in_file("functory/daemon/served_time.py", PROMISES)
parts = in_file("functory/daemon/parts.py", PROMISES)
executor = in_file("functory/execution/executor.py", PROMISES)
keyed = in_file("functory/execution/keyed_starts.py", "tests/unit/functory/test_keyed_starts.py")
batches = in_file("functory/execution/batches.py", PROMISES)
straight = in_file("functory/execution/straight/way.py", "tests/service/test_straight.py")
showing = in_file("functory/execution/straight/showing.py", "tests/service/test_straight.py")
leases = in_file("functory/execution/leases.py", LEASES)
outbox = in_file("functory/execution/outbox.py", f"{PROMISES} {OUTBOX}")
outcomes = in_file(
    "functory/execution/outcomes.py", "tests/unit/functory/test_releases.py tests/service/test_execute.py"
)
reader = in_file("functory/intake/journal_reader.py", INTAKE)
claims_under_way = in_file("functory/execution/claims_under_way.py", "tests/service/test_tenants_contexts.py")
recent_ends = in_file("functory/execution/straight/recent_ends.py", "tests/unit/functory/test_recent_ends.py")
backlog = in_file("functory/intake/backlog.py", INTAKE)
in_force = in_file("functory/execution/handlers_in_force.py", "tests/service/test_handlers_in_force.py")
due_alarm = in_file("functory/execution/due_alarm.py", "tests/unit/functory/test_due_alarm.py")
courtesy = in_file("functory/loops/courtesy.py", "tests/unit/functory/test_courtesy.py")
operator_key = in_file("functory/daemon/operator_key.py", "tests/web/test_admin.py")
late_writes = in_file("functory/loops/late_writes.py", "tests/unit/functory/test_late_writes.py")
accepted = in_file("functory/intake/accepted_batches.py", "tests/unit/functory/test_accepted.py")

FAMILIES = "tests/service/test_families.py"
wishes = in_file("functory/execution/wishes.py", f"tests/unit/functory/test_wishes.py {FAMILIES}")
families = in_file("functory/execution/families.py", FAMILIES)

afterwards = in_file("functory/execution/afterwards.py", "tests/unit/functory/test_afterwards.py")

PEERS = "tests/unit/functory/test_peers.py"
WOKEN = "tests/service/test_woken_across.py"
peers_channel = in_file("functory/peers/channel.py", PEERS)
peers_news = in_file("functory/peers/news.py", PEERS)
peers_announcer = in_file("functory/peers/announcer.py", f"{PEERS} {WOKEN}")
hearing = in_file("functory/daemon/hearing.py", WOKEN)
AWAY = "tests/service/test_start_without_store.py"
joining = in_file("functory/daemon/joining.py", AWAY)
kept_keys = in_file("functory/daemon/kept_keys.py", f"tests/unit/functory/test_kept_keys.py {AWAY}")

MUTANTS: list[Mutant] = [
    due_alarm("jobs that come due soon after others wait for a poll", "                rung_ms = now_ms\n", ""),
    due_alarm("news of a job that is due sooner are not heard", "        self._news.set()", "        pass"),
    due_alarm("a clock that was set back hides what comes due", "rung_ms = min(rung_ms, now_ms)", "rung_ms = rung_ms"),
    due_alarm("the store is asked for each of many jobs", "            await asyncio.sleep(pause_s)\n", ""),
    courtesy(
        "whoever posts one job now and then slows all others", "_MOMENT_S: Final = 0.05", "_MOMENT_S: Final = 1.0"
    ),
    courtesy(
        "a tenant's own jobs make its steps short", "if asker == self._last.tenant else self._last", "and self._last"
    ),
    operator_key("an operator's key is written over", "        path.rename(aside)\n", ""),
    operator_key("daemons that start together make a key each", "fcntl.LOCK_EX)", "fcntl.LOCK_SH)"),
    late_writes("a log that nobody reads takes all memory", "> self._most:", "> 1 << 40:"),
    late_writes("what was written counts for ever", "sum(map(len, waiting)), self", "0, self"),
    late_writes("a stop loses the last lines of the log", "        self._thread.join(within_s)\n", ""),
    late_writes(
        "a stop loses lines that came while others were written",
        "        self._write_waiting()  # what came while it wrote\n",
        "",
    ),
    late_writes("a log that is closed ends the thread", "except OSError:", "except BlockingIOError:"),
    late_writes("lines that are refused are not counted", "return sum(each.count", "return 0 * sum(each.count"),
    late_writes("lines of others come in between", "if self._is_file else", "if True else"),
    showing(
        "an end overtakes the showing of its job", "        while self.under_way and (", "        while False and ("
    ),
    claims_under_way("a claim that nobody waits for is lost", "self._give_back(await claiming)", "await claiming"),
    recent_ends("one that ends again counts twice", "        self._drop(record.job.id)\n", ""),
    keyed("slots of a type with keys stay in step", ", allowance_s) if coincides else 0.0", ", 0.0)"),
    keyed("slots wait as often as starts coincide", ", allowance_s) if", ") if"),
    keyed("a few jobs are kept waiting", " and waiting >= _WAITING * slots", ""),
    keyed("batches with keys are as long as others", "max(1, pick.jobs // _PART)", "pick.jobs"),
    executor(
        "a pause comes too late for what was picked",
        "        if self._is_stopping or self.is_paused:  # since it was picked\n            return ClaimedJobs()\n",
        "",
        tests="tests/unit/functory/test_looks.py",
    ),
    joining(
        "a spare serves two lives that had the store",
        "        await asyncio.to_thread(self._remove_spare)\n        position",
        "        position",
    ),
    joining(
        "lines that the store has are read again", "            journal.read_on_from(position)\n", "            pass\n"
    ),
    joining("a store that comes is not let in", "                self._store.let_in()\n", ""),
    kept_keys("keys of another store are believed", " if file.mark == self._mark else []", ""),
    kept_keys("a revoked key stays in the file", "        keys.when_forgotten(self._forget)\n", ""),
    kept_keys("the operator's keys are kept", "who.tenant != OPERATOR and ", ""),
    peers_channel("forged datagrams are heard", "            self.refused += 1\n", "            news.hear(sealed)\n"),
    peers_channel("a flood of datagrams is read in one step", "range(READ_AT_ONCE)", "range(10**9)"),
    peers_news(
        "marks that are heard have no bound", "            if len(marks) < MOST_MARKS:\n", "            if True:\n"
    ),
    peers_announcer(
        "endings are not told", "        self._news.note_ended(\n            [", "        list(\n            ["
    ),
    peers_announcer("each daemon runs after the others' jobs", " if not self._is_clear(jobtype))", ")"),
    peers_announcer("an arrival is told to nobody", "            self._arrived.note_added(jobtypes)\n", ""),
    hearing("whoever waits is not told of ends elsewhere", "        parts.waiters.heard(news.ended)\n", ""),
    hearing("a cancel waits for the renewal", "            self._cancelled |= news.cancelled\n", ""),
    hearing("workers are not told of jobs elsewhere", "            parts.workers.added(news.added)\n", ""),
    afterwards("children are not kept for their parent", "    if job.parent or job.children", "    if job.children"),
    afterwards("what a parent carries on is lost", " or _has_child(new_jobs):", ":"),
    afterwards("what failed is not kept", "afterwards.keep != KEEP_FAILED", "afterwards.keep"),
    afterwards("a chain has no end", "links=links_of(job) + 1", "links=1"),
    afterwards("a follower is told of the wrong job", "Origin(job.id, ", "Origin(job.parent, "),
    afterwards("a run that made children passes its result on", " and not _has_child(new_jobs):", ":"),
    afterwards("what failed goes where what is ok goes", "afterwards.on_failure if code", "afterwards.then if code"),
    wishes("a sibling is a child", "        parent = job.parent\n", "        parent = job.id\n"),
    wishes("unknown options are ignored", "        if name not in _OPTIONS:\n", "        if not name:\n"),
    wishes("jobs with a name go through the journal", "any(wish.unique or wish.parent", "any(wish.parent"),
    wishes(
        "a unique name forgets the priority of the job that has it",
        'else {"repeat", "priority"})',
        'else {"repeat"})',
    ),
    families("results of children are not bounded", "min(RESULT_BYTES, left_bytes // _PAGE)", "RESULTS_BYTES"),
    batches(
        "a parent is not told of its children",
        "await self._with_children(some[0]) if some[0].children else some",
        "some",
        tests=FAMILIES,
    ),
    daemon("a stop does not flush outcomes", "                await self.outbox.empty()\n", ""),
    daemon("a stop does not flush lines", "                await self.intake.flush()\n", ""),
    daemon("a stop waits for nothing", "            await self._unless_hurried(self._flush())", "            pass"),
    daemon(
        "a stop ends what runs",
        "            await self._unless_hurried(self.executor.stop(self.settings.grace_s))\n",
        "",
    ),
    daemon(
        "a loop that died is no matter",
        "        for task in failed:",
        "        for task in failed[:0]:",
        tests="tests/service/test_daemon.py",
    ),
    upkeep(
        "a run that was cancelled elsewhere goes on",
        "        await self.end_cancelled(stale)\n",
        "",
        tests="tests/service/test_cancel.py",
    ),
    upkeep(
        "leases are never renewed",
        '            "renew_leases": (settings.lease_s / 3, self.renew_leases),\n',
        "",
    ),
    upkeep(
        "leases are renewed too late",
        "(settings.lease_s / 3, self.renew_leases)",
        "(settings.lease_s * 2, self.renew_leases)",
    ),
    upkeep(
        "lapsed leases are never expired",
        '            "expire_leases": (settings.poll_s, self.expire_leases),\n',
        "",
        tests="tests/service/test_upkeep.py",
    ),
    upkeep(
        "a purge takes all that has ended",
        "                done_before_ms=now_ms - keep_done_ms,",
        "                done_before_ms=now_ms,",
    ),
    served(
        "a purge abandons all that waits",
        "    before_ms = now_ms - keep_ms",
        "    before_ms = now_ms",
    ),
    served(
        "time in which no daemon had the store counts",
        "        before_ms -= gap.end_ms - gap.start_ms",
        "        pass",
    ),
    upkeep(
        "nothing is ever purged",
        "                done_before_ms=now_ms - keep_done_ms,",
        "                done_before_ms=0,",
    ),
    upkeep(
        "a purge stops after its first step",
        "            more = report.more\n",
        "            more = False\n",
        tests="tests/service/test_upkeep.py",
    ),
    upkeep(
        "a store that is away ends the daemon",
        "            except StoreUnavailable as error:\n                self._note_trouble(",
        "            except ZeroDivisionError as error:\n                self._note_trouble(",
        tests="tests/service/test_upkeep.py",
    ),
    parts(
        "a start ignores the store's read position",
        "    position = await joining.position(reader)\n",
        "    position = None\n",
    ),
    parts(
        "a daemon starts on half a restore",
        "    await asyncio.to_thread(require_whole, settings.data_dir)\n",
        "",
        tests="tests/unit/functory/test_backup.py",
    ),
    batches(
        "a job that kills its daemon is never given up",
        "        going, exhausted = part_exhausted(jobs, retry)\n",
        "        going, exhausted = jobs, ()\n",
    ),
    batches(
        "a job that is given up runs all the same",
        "        going, exhausted = part_exhausted(jobs, retry)\n",
        "        going, exhausted = jobs, part_exhausted(jobs, retry)[1]\n",
    ),
    batches(
        "what was not started is lost until its lease lapses",
        "            self.give_back(list(delivery.left.values()))\n",
        "",
        tests=f"{LEASES}",
    ),
    executor(
        "a paused daemon goes on",
        "        return not self._is_stopping and not self.is_paused and self._policy.has_room",
        "        return not self._is_stopping and self._policy.has_room",
        tests="tests/service/test_upkeep.py",
    ),
    executor(
        "a stopping daemon goes on",
        "        return not self._is_stopping and not self.is_paused and self._policy.has_room",
        "        return not self.is_paused and self._policy.has_room",
        tests="tests/service/test_straight.py",
    ),
    batches("a lost lease is started", "on_stopped, ready, incarnation", "on_stopped, incarnation", tests=LEASES),
    batches(
        "an outcome is recorded twice",
        "            jobs = list(map(left.pop, map(_STOPPED_ID, ended)))",
        "            jobs = [left[one.id] for one in ended]",
    ),
    leases(
        "a lapsed lease is good",
        "            return self._clock.now_ms() < until_ms and not (",
        "            return not (",
        tests=LEASES,
    ),
    leases(
        "a lost lease is good", " and not (self._lost and self._lost.intersection(map(_LEASE, some)))", "", tests=LEASES
    ),
    leases(
        "a renewal counts for what it did not know",
        "self._renewed_ms if self._renewed_ms >= known_ms else claimed_ms",
        "max(self._renewed_ms, claimed_ms)",
        tests=LEASES,
    ),
    leases(
        "a fixed lease lasts longer",
        "                until_ms = min(until_ms, fixed_ms)",
        "                pass",
        tests=LEASES,
    ),
    leases(
        "a released lease is renewed for ever",
        "            held = tokens.pop(job_id, token)",
        "            held = tokens.get(job_id, token)",
        tests=LEASES,
    ),
    leases(
        "the lease of a new delivery is not renewed", "                tokens[job_id] = held", "                pass"
    ),
    outbox(
        "new jobs are written after the outcome",
        "            await self._release(await self._write_wanted(others))",
        "            await self._release(others)\n            await self._write_wanted(others)",
    ),
    outbox(
        "a write of two thousand outcomes has the two million jobs that they made",
        " or made > most_made",
        "",
    ),
    outbox(
        "outcomes are dropped when the store is away",
        "                await asyncio.sleep(_PAUSE_S)",
        "                return await call()",
    ),
    wishes(
        "a tenant's new jobs go to the type that they name",
        "        else Wish(jobtype_of(tenant, one.type), one.payload)\n",
        "        else Wish(one.type, one.payload)\n",
    ),
    outbox(
        "two deliveries of a job go in one call",
        "            if job.id in seen:\n                return endings[:number]",
        "            if job.id in seen:\n                return endings",
        equivalent="the store refuses the call as a whole, and then they are released one by one",
    ),
    outcomes(
        "a failed job is tried again",
        "_OVER: Final = frozenset({Code.OK, Code.FAILED})",
        "_OVER: Final = frozenset({Code.OK})",
    ),
    outcomes(
        "an error is the end",
        "_OVER: Final = frozenset({Code.OK, Code.FAILED})",
        "_OVER: Final = frozenset({Code.OK, Code.FAILED, Code.ERROR})",
    ),
    outcomes(
        "a repeating job ends after one round",
        "    if not job.repeat:\n        return None",
        "    if True:\n        return None",
    ),
    outcomes("nobody is told why a job is tried again", "if word in _SILENT:", "if word in {*_SILENT, _RETRY}:"),
    outcomes("a retry is counted as a failure", " if message and word != _RETRY else", " if message else"),
    outcomes("a refused retry ends a repetition", "else next_round_ms(job, now_ms, now_ms)", "else None"),
    outcomes(
        "a repeating job in a batch ends",
        "_OVER.issuperset(map(_CODE, outcomes)) and not any(map(_REPEAT, jobs)):",
        "_OVER.issuperset(map(_CODE, outcomes)):",
    ),
    reader(
        "a store that is away loses lines",
        "            except StoreUnavailable as error:\n                await self._journal.read_cancel(reservation)\n",
        "            except StoreUnavailable as error:\n                await self._journal.rsync(reservation)\n",
    ),
    outcomes(
        "a repetition that is cancelled goes on",
        "    if outcome.code is Code.CANCELLED:  # its repetition too\n        return Archive(job.id, job.token, outcome)\n",
        "",
        tests="tests/service/test_cancel.py",
    ),
    reader(
        "one bad line holds up all others",
        "        except ValueError:  # InvalidValue of the store among them\n            await self._add_one_by_one(new, now_ms, position)",
        "        except ZeroDivisionError:\n            await self._add_one_by_one(new, now_ms, position)",
    ),
    reader(
        "a flush does not wait",
        "                await done\n        if not tenant:",
        "                done.cancel()\n        if not tenant:",
    ),
    backlog(
        "lines pass others of their tenant",
        "_WORTH_IT\n            and not self.waits(tenant)\n",
        "_WORTH_IT\n",
    ),
    backlog(
        "lines that nobody runs are added one by one",
        "_line.enter(tenant, count, kind, is_urgent=is_large or self._may_run(jobtype))",
        "_line.enter(tenant, count, kind)",
    ),
    in_force("what is invoked is read each time", "        gate = self._gates.ask(jobtype)", "        gate = None"),
    backlog("indexed lines pass others", "            and not options.indexed  #", "            and True  #"),
    backlog(
        "what failed on the way past is never added",
        "in jobs:\n                if self._ahead.pop(job.id, None) is not None:\n                    self._line.enter",
        "in jobs:\n                if self._ahead.get(job.id) is not None:\n                    self._ahead[job.id] = True\n                    self._line.enter",
    ),
    showing(
        "a long job is never shown",
        '        self._keep(asyncio.create_task(self.show_all([job.id for job in jobs]), name="show running jobs"))\n',
        "        return\n",
    ),
    straight(
        "jobs that come quickly start one by one",
        "            if not self._gathering.waits_for_more(jobtype, self._waiting.of(jobtype)):",
        "            if True:",
    ),
    straight("a look starts nothing", "        self._gathering.hurry(jobtype)", "        return"),
    straight("a paused type is started", "gate.is_open and gate.handler_version:", "True:"),
    straight(
        "what cannot start in time waits for ever",
        "        for jobtype in [name for name in self._waiting if self._waiting.until_s(name) <= now_s]:\n            self._return(jobtype)\n",
        "",
    ),
    reader(
        "the journal lets go of lines that still run",
        "        if open_.missing or not open_.is_added",
        "        if not open_.is_added",
        tests="tests/service/test_straight.py",
    ),
    accepted(
        "a job of another tenant is answered for",
        "                return batch if tenant_of(batch.jobtype) == tenant else None",
        "                return batch",
    ),
    accepted(
        "the memory of accepted jobs has no bound",
        "        while self._count > self._max_batches:",
        "        while False:",
    ),
]

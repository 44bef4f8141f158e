"""Jobs that wait for longer than their type allows: run all the same, or ended too early."""

from tests.mutants.mutant import Mutant, in_file

TEST = "tests/service/test_late_jobs.py -k sqlite"
EXPIRE = "tests/contract/store/test_expire_jobs.py"

taken = in_file("functory/execution/late.py", TEST)
waiting = in_file("functory/daemon/late_jobs.py", TEST)
cost = in_file("functory/daemon/late_jobs.py", "tests/unit/functory/test_late_looks.py")
for_workers = in_file("functory/workers/claims.py", TEST)
in_sqlite = in_file("store/sqlite/queue/expire.py", f"{EXPIRE} -k sqlite")
in_mongo = in_file("store/mongo/queue/expire.py", f"{EXPIRE} -k mongodb")

MUTANTS: list[Mutant] = [
    taken(
        "a job is run however late it is", "    if wait_s is None and not any(map(_OPTIONS, jobs)):\n", "    if True:\n"
    ),
    taken("a round that is late ends the schedule", "end_of_round(job, ", 'end_of_round(job._replace(repeat=""), '),
    waiting("what waits for a token waits on", "each.oldest_due_ms < now_ms - wait_s * 1000", "False"),
    waiting("nobody looks where the executor does not", "await self._look() if seen is None else seen", "seen or ()"),
    waiting("an old handler says what is late", " and gate.handler_version == each.handler_version", ""),
    cost("a flood of late jobs is ended first", "range(_MOST_STEPS)", "range(10**6)"),
    cost("what waits on is asked for at each look", " or self._rests(each)", ""),
    for_workers(
        "a worker gets what is late", "        jobs, late = part_late(jobs, handler, now_ms)\n", "        late = ()\n"
    ),
    in_sqlite(
        "other types are ended with it", "l.type = (SELECT type FROM types WHERE", "0 < (SELECT type FROM types WHERE"
    ),
    in_mongo("other types are ended with it", '            where = {"type": jobtype}\n', "            pass\n"),
]

"""Deleted jobs that come back, and what stays of them for ever."""

from tests.mutants.mutant import Mutant, in_file

SERVICE = "tests/service/test_deleted_jobs.py"
SQLITE = "tests/contract/store/test_deleted.py -k sqlite"
MONGO = "tests/contract/store/test_deleted.py -k mongodb"

positions = in_file("store/values/positions.py", SQLITE)
sqlite = in_file("store/sqlite/queue/deleted.py", SQLITE)
mongo = in_file("store/mongo/queue/deleted.py", MONGO)
lines = in_file("functory/intake/passed_lines.py", SERVICE)
reader = in_file("functory/intake/journal_reader.py", SERVICE)
joining = in_file("functory/daemon/joining.py", SERVICE)

MUTANTS: list[Mutant] = [
    positions(
        "of two journals the one that is ahead counts", "    return min((it.passed for", "    return max((it.passed for"
    ),
    positions("the id of the last line that was read stays", "return job_id > passed_of", "return job_id >= passed_of"),
    positions("who writes to a journal is forgotten when it is many", "else (ANY,)", "else (sysid,)"),
    sqlite("the id of a deleted job does not stay", " if may_be_read_again(job_id, positions)]", " if False]"),
    sqlite("an id stays for ever", "(_READ, passed_of(source, positions))", '(_READ, "")'),
    sqlite("an id stays although its journal is gone", "now_ms - FORGOTTEN_AFTER_MS", "0"),
    sqlite("ids go in one step", "(source, value, left)", "(source, value, 10**6)"),
    in_file("store/sqlite/queue/add.py", SQLITE)(
        "a position goes back", " WHERE excluded.passed >= passed OR excluded.sources <> sources", ""
    ),
    in_file("store/sqlite/queue/rows.py", SQLITE)(
        "an id that stayed is a paused job", "    if state >= State.ARCHIVED:", "    if state == State.ARCHIVED:"
    ),
    mongo("the id of a deleted job does not stay (MongoDB)", " if may_be_read_again(job_id, positions)]", " if False]"),
    mongo("an id stays for ever (MongoDB)", '{"$lte": passed_of(source, positions)}', '{"$lte": ""}'),
    mongo("an id stays although its journal is gone (MongoDB)", "now_ms - FORGOTTEN_AFTER_MS", "0"),
    mongo(
        "ids of other sources stay (MongoDB)",
        "        source = await _next_source(db, source)",
        "        source = None",
    ),
    in_file("store/mongo/queue/add.py", MONGO)("a position goes back (MongoDB)", ', "$nor": [later]', ""),
    in_file("store/mongo/queue/job_changes.py", MONGO)(
        "nothing stays of deleted jobs (MongoDB)",
        "list(archived.values()), now_ms, keeps_ids=True",
        "list(archived.values()), now_ms",
    ),
    in_file("store/mongo/queue/create.py", MONGO)(
        "an id that stayed is used again (MongoDB)",
        'if older["s"] in {*schema.VISIBLE_STATES, schema.DELETED}:',
        'if older["s"] in schema.VISIBLE_STATES:',
    ),
    lines(
        "what is in hand is passed",
        "self._ends[0][0] <= self._journal.read_point:",
        "True:",
    ),
    lines("earlier daemons of a journal are forgotten", "if passed >= self._floor else self._earlier()", ""),
    lines(
        "earlier daemons of a journal stay for ever",
        "self._writers if passed >= self._floor else self._earlier()",
        "(*self._earlier(), *self._writers)",
    ),
    reader("ids that are no lines are never passed", ', self._journal.passed_id or "")', ")"),
    reader("a position that is kept is written again", "        if position != self._kept:\n", "        if True:\n"),
    joining(
        "what was passed before a clock was set back is believed",
        'known.passed if known.passed < self._first_id else ""',
        "known.passed",
    ),
    joining("the store does not know who writes to a journal", ", sources=self.sources)", ")"),
    in_file("functory/daemon/upkeep.py", SERVICE)(
        "ids that are no lines are passed with the next line",
        "            await self._intake.keep_position()\n",
        "            pass\n",
    ),
    in_file("journal/journal.py", SERVICE)(
        "lines that are being written are passed", "self._commits.is_idle and self.read_point", "self.read_point"
    ),
]

"""Children whose parent ended: some never hear of it, or too many at once."""

from tests.mutants.mutant import Mutant, in_file

FAMILIES = (
    "tests/contract/store/test_families.py tests/contract/store/test_relatives.py tests/contract/store/test_rounds.py"
)
SQLITE = f"{FAMILIES} -k sqlite"

families = in_file("store/sqlite/queue/families.py", SQLITE)
relatives = in_file("store/mongo/queue/relatives.py", f"{FAMILIES} -k mongodb")
relatives_races = in_file(
    "store/mongo/queue/relatives.py", "tests/contract/store/test_family_races.py -k 'mongodb and add_'"
)
relatives_siblings = in_file(
    "store/mongo/queue/relatives.py", "tests/contract/store/test_sibling_races.py -k 'mongodb and add_'"
)
CUT = "tests/mongo/test_child_cut.py"
create_counts = in_file("store/mongo/queue/create.py", f"{CUT} -k 'counts and add'")
create_halves = in_file("store/mongo/queue/create.py", f"{CUT} -k 'halves or whoever'")
appearing_counts = in_file("store/mongo/queue/appearing.py", f"{CUT} -k make_sibling")
making = in_file("store/mongo/queue/making.py", "tests/contract/store/test_making.py -k mongodb")
release = in_file("store/sqlite/queue/release.py", SQLITE)
endings = in_file("store/sqlite/queue/endings.py", SQLITE)
queue_role = in_file("store/sqlite/roles/queue.py", SQLITE)
job_role = in_file("store/sqlite/roles/jobs.py", SQLITE)
transfer_role = in_file("store/sqlite/roles/transfer.py", SQLITE)

MUTANTS: list[Mutant] = [
    endings("children of a failed parent stay", "if row.pending and outcome.code != Code.OK", "if False"),
    release("the children of a round that failed stay", "if row.pending and outcome.code in FINAL_CODES", "if False"),
    families(
        "held children stay held",
        "        tx.conn.execute(_ENTER, (state, now_ms, child.n))",
        "        pass",
    ),
    families("a held child is as old as its parent's run", "due = max(due, ?2), ", ""),
    families(
        "all children are changed at once",
        "left, limit = deque(families), MAX_CHILDREN",
        "left, limit = deque(families), 1 << 30",
    ),
    families("what is left of a family is forgotten", "        _note(tx, family, now_ms)\n", "        pass\n"),
    families("a family ends with its first step", "if len(found) > limit:", "if False:"),
    families(
        "the next round runs among children of the last",
        "        _pause_parent(tx, family.parent, now_ms)\n",
        "        pass\n",
    ),
    families(
        "the next round comes too early",
        "            _end_round(tx, family.parent, family.due_ms, now_ms)\n",
        "            pass\n",
    ),
    families("a cancel is replaced by what came before it", "if not _holds(tx, family):", "if False:"),
    families(
        "the next round does not wait for a child that was replayed",
        'if tx.conn.execute("SELECT pending FROM jobs WHERE id = ?", (parent,)).get:',
        "if False:",
    ),
    families("what was noted before a cancel stays", '"DELETE FROM families WHERE parent = ?"', '"SELECT ?"'),
    endings("the next round comes at once", "            if due_ms is None:\n", "            if True:\n"),
    families("a late step frees children of the next run", "return bool(state == State.BLOCKED)", "return True"),
    families("a parent is replayed too early", ".get is not None", ".get is None and False"),
    queue_role("a family waits for ever", "range(_FAMILY_STEPS)", "range(0)"),
    job_role(
        "a cancel returns too early",
        "        while left:\n            left =",
        "        while False:\n            left =",
    ),
    transfer_role(
        "half a family is moved", "while parents := await self._read(families.noted):", "while parents := []:"
    ),
    relatives(
        "children of a failed parent stay held",
        "        is_done = await _cancel_children(db, job_id, now_ms, budget)\n",
        "        pass\n",
    ),
    relatives("what is left of a family is forgotten", "    if is_done:\n", "    if True:\n"),
    relatives_races(
        "a parent that runs again frees a child that was added meanwhile",
        '    if parent["s"] != schema.PAUSED:\n        return True\n',
        "",
    ),
    relatives_races(
        "a child that was added while a round failed runs", '    if "next" not in parent:\n', "    if True:\n"
    ),
    relatives_races("a child that did not appear stays counted", '"$inc": {"kids": -1}', '"$inc": {"kids": 0}'),
    relatives_siblings(
        "a child that was added while its parent was cancelled runs",
        "_NOT_RUNNING if is_cancelled and",
        "() if False and",
    ),
    create_counts(
        "a child stays counted whose process died", '        if "join" in document:\n', "        if False:\n"
    ),
    create_halves(
        "a parent waits for a child that is removed by halves",
        '{"$set": {"pend": False}}',
        '{"$set": {"pend": True}}',
    ),
    create_halves(
        "a parent waits for a child that is gone", '        await wake_parent(db, document["parent"], now_ms)\n', ""
    ),
    appearing_counts(
        "a child is counted again when it is shown again", '        if "join" in document:  #', "        if False:  #"
    ),
    create_halves(
        "a child that is being removed appears",
        'child = {"pend": True, "join": document.get("join")} if document.get("parent") else {}',
        "child: Document = {}",
    ),
    making(
        "a child that finds its name taken is counted",
        '                document["join"] = new_join()',
        "                pass",
    ),
    relatives("a parent is replayed too early", 'isdisjoint(document.get("todo", ()))', "isdisjoint(())"),
    relatives("a release changes all children", "None if owner is None else Budget(MAX_CHILDREN)", "None"),
]

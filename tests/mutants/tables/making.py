"""Runs that end with the jobs that they made: all or none of them, once, however many runs end together."""

from tests.mutants.mutant import Mutant, in_file

CONTRACT = "tests/contract/store/test_making.py"
RACES = "tests/mongo/test_made_together.py"

in_sqlite = in_file("store/sqlite/queue/making.py", CONTRACT)
in_mongo = in_file("store/mongo/queue/making.py", f"{CONTRACT} -k mongodb")
appearing = in_file("store/mongo/queue/appearing.py", f"{CONTRACT} -k mongodb")
outbox = in_file("functory/execution/outbox.py", "tests/unit/functory/test_outbox.py")

MUTANTS: list[Mutant] = [
    in_sqlite("who lost a job makes jobs", "for end in ends if end.release.id in owned for", "for end in ends for"),
    in_mongo(
        "new jobs of who lost a job stay",
        "for document in maker.hidden if state is None else ()",
        "for document in ()",
        tests=RACES,
    ),
    in_mongo("new jobs never appear", "        await follow_made(self, list(ended), now_ms)\n", ""),
    in_mongo(
        "a new job that is refused is not noticed", "        if job.unique or not is_free:\n", "        if False:\n"
    ),
    in_mongo(
        "who got a child meanwhile is given up",
        "        db, owner, {maker.id: maker.ending.release.token for maker in together if maker.id not in done}\n",
        "        db, owner, {}\n",
        tests=RACES,
    ),
    in_mongo(
        "of a run that is reported twice all new jobs appear",
        'f"{end.release.token}{zlib.crc32(made.encode()):010d}"',
        'f"{end.release.token}{len(made):010d}"',
        tests=RACES,
    ),
    appearing(
        "a child that a run makes has no number",
        "    beyond = await _number(db, hidden, now_ms)",
        "    beyond = await _number(db, [it for it in hidden if not it.job.parent], now_ms)",
    ),
    appearing(
        "two new jobs with one name are shown together",
        'lambda row: row["_id"] if row.get("unique") else ""',
        'lambda _: ""',
    ),
    appearing(
        "a child of a run that is over starts at once",
        '    held = job.parent != "" and job.parent == document["by"].rpartition(".")[0]\n',
        "    held = False\n",
    ),
    appearing(
        "a sibling is held by a parent that has ended",
        "            await follow(db, job.id, now_ms)  # the parent may have ended in the meantime\n",
        "            pass\n",
        tests=RACES,
    ),
    appearing(
        "what somebody else has struck off is taken for done",
        "            rest = list(rows)  # somebody else has struck off some, or noted more\n",
        "            pass\n",
        equivalent="the next upkeep does it",
    ),
    outbox(
        "one refusal costs all runs that end together", "            if len(makers) == 1:\n", "            if makers:\n"
    ),
]

"""SQLite: jobs that are lost, doubled, taken from their owner, or counted wrongly."""

from tests.mutants.mutant import Mutant, in_file

CONTRACT = "tests/contract/store -k sqlite"
FENCES = "tests/contract/store/test_fences.py tests/contract/store/test_leases.py tests/contract/store/test_release.py -k sqlite"
RACES = "tests/contract/store/test_races.py tests/contract/store/test_expire_jobs.py -k sqlite"
RELATIVES = "tests/contract/store/test_relatives.py tests/contract/store -k sqlite"
ROUNDS = "tests/contract/store/test_rounds.py -k sqlite"
CLAIM = (
    "tests/contract/store/test_claim.py tests/contract/store/test_rates.py tests/contract/store/test_bulk.py -k sqlite"
)
KEYS = "tests/contract/store/test_keys.py tests/property/test_keys.py -k sqlite"
TENANTS = "tests/contract/store/test_tenants.py tests/contract/store/test_daemons.py -k sqlite"
UNIT = "tests/unit/store/test_sqlite_writer.py tests/unit/store/test_sqlite.py tests/unit/store/test_checkpoints.py"

release = in_file("store/sqlite/queue/release.py", FENCES)
expire = in_file("store/sqlite/queue/expire.py", RACES)
claim = in_file("store/sqlite/queue/claim.py", CLAIM)
taking = in_file("store/sqlite/queue/taking.py", CLAIM)
keyed = in_file("store/sqlite/queue/keyed_claim.py", KEYS)
turns = in_file("store/sqlite/queue/turns.py", KEYS)
claim_tables = in_file("store/sqlite/file/claim_tables.py", KEYS)
rates = in_file("store/sqlite/queue/rates.py", CLAIM)
add = in_file("store/sqlite/queue/add.py", CONTRACT)
change = in_file("store/sqlite/queue/job_changes.py", f"tests/contract/store/test_job_changes.py {CONTRACT}")
endings = in_file("store/sqlite/queue/endings.py", RELATIVES)
writer = in_file("store/sqlite/file/writer.py", UNIT)
maintenance = in_file(
    "store/sqlite/file/maintenance.py", "tests/unit/store/test_sqlite_copy.py tests/unit/store/test_sqlite_versions.py"
)
connection = in_file("store/sqlite/file/connection.py", UNIT)
tenants = in_file("store/sqlite/records/tenants.py", TENANTS)
once = in_file(
    "store/sqlite/records/once.py",
    "tests/contract/store/test_tenants.py tests/contract/store/test_once.py -k sqlite",
)
daemons = in_file("store/sqlite/records/daemons.py", TENANTS)


discard = in_file("store/sqlite/queue/discard.py", "tests/contract/store/test_discard.py -k sqlite")

contents = in_file("store/sqlite/records/contents.py", "tests/contract/store/test_contents.py -k sqlite")

MUTANTS: list[Mutant] = [
    contents(
        "a piece that is needed again is collected",
        "SET touched = max(touched, excluded.touched)",
        "SET touched = touched",
    ),
    contents("what was touched lately is removed", " AND touched < ? RETURNING 1", " AND ? > 0 RETURNING 1"),
    discard("a parent is not kept", " AND j.children = 0", ""),
    discard("a numbered job is not kept", " AND j.seq IS NULL", ""),
    release(
        "a lease is renewed with an old token",
        "    return {row.id: row for row in found if tokens[row.id] == row.token}",
        "    return {row.id: row for row in found}",
    ),
    release(
        "another's delivery is renewed or retried",
        'f" WHERE j.state = {State.RUNNING} AND j.lock = ?"',
        'f" WHERE j.state = {State.RUNNING} AND ? IS NOT NULL"',
    ),
    release(
        "another's delivery is archived",
        'AND j.state = {State.RUNNING} AND j.lock = ?"\n)',
        'AND j.state = {State.RUNNING} AND ? IS NOT NULL"\n)',
    ),
    release("old deliveries are archived in bulk", "        and tokens == list(map(_TOKEN, releases))\n", ""),
    release(
        "old deliveries are archived one by one", "        if token != release.token:", "        if token is None:"
    ),
    release(
        "a fixed lease is renewed",
        "    renewed = [row.n for row in owned.values() if row.retry_after_ms is None]",
        "    renewed = [row.n for row in owned.values()]",
    ),
    release(
        "a job that was given back has lost an attempt",
        '    undo = "UPDATE jobs SET attempts = attempts - 1 WHERE n = ?"',
        '    undo = "UPDATE jobs SET attempts = attempts WHERE n = ?"',
    ),
    release(
        "a lapsed job keeps its lock",
        "state = ?, lock = NULL, lease = NULL WHERE n = ?",
        "state = ?, lease = NULL WHERE n = ?",
        equivalent="the lock of a row counts only while it runs, and a claim sets it anew",
    ),
    release(
        "a parent does not wait for its children",
        "isinstance(release, Archive | Finish | Rearm) and row.pending and release.outcome.code == Code.OK:",
        "False:",
        tests=RELATIVES,
    ),
    release(
        "a round does not wait for its children",
        "isinstance(release, Archive | Finish | Rearm) and row.pending",
        "isinstance(release, Archive | Finish) and row.pending",
        tests=ROUNDS,
    ),
    release(
        "the retry window begins with every attempt",
        "row.due if row.begun is None else row.begun",
        "row.due",
        tests=ROUNDS,
    ),
    release(
        "a retry keeps the payload that it replaced",
        "        if isinstance(release, Retry | Rearm) and release.data is not None:\n",
        "        if isinstance(release, Rearm) and release.data is not None:\n",
        tests=CONTRACT,
    ),
    expire(
        "a lease is expired before its time",
        '("j.lease <= ?", now_ms) if',
        '("j.lease <= ?", now_ms + 60_000) if',
        tests=FENCES,
    ),
    expire(
        "a purge takes a job that was replayed meanwhile",
        "FROM jobs j WHERE n = ? AND state = {State.ARCHIVED} AND",
        "FROM jobs j WHERE n = ? AND",
    ),
    expire(
        "a purge takes children that a parent may ask for",
        "p.id = j.parent AND p.state {LIVE}",
        "p.id = j.parent AND p.state < 0",
        tests="tests/contract/store/test_expire_families.py -k sqlite",
    ),
    expire(
        "children of earlier rounds are never purged",
        "(ifnull(p.repeat, '') = '' OR j.created >= ifnull(p.planned, p.due))",
        "(true)",
        tests="tests/contract/store/test_expire_families.py -k sqlite",
    ),
    expire(
        "the last round of a schedule finds no children",
        "(ifnull(p.repeat, '') = '' OR",
        "(p.repeat IS NULL OR",
        tests="tests/contract/store/test_expire_families.py -k sqlite",
    ),
    expire(
        "a purge takes a job that ended again meanwhile",
        "if row is not None and row[1] < before.ended_ms(row[0])]",
        "if row is not None]",
    ),
    expire(
        "abandonment takes a job that was claimed meanwhile",
        "FROM jobs j WHERE n = ?1 AND {_WAITED}",
        "FROM jobs j WHERE n = ?1 AND due < ?2",
    ),
    expire(
        "abandonment takes a job that was put off meanwhile",
        "due = [tx.conn.execute(sql, (n, before.waiting_ms)).get for",
        "due = [tx.conn.execute(sql, (n, 1 << 60)).get for",
    ),
    turns(
        "a key whose jobs were not due has all its credit",
        "    tx.conn.execute(RAISE, (number, served - KEY_CREDIT_US))\n",
        "",
    ),
    expire("due jobs are counted twice", "        leave(tx, State.DEFERRED, 0, lane)\n", "", tests=CONTRACT),
    claim(
        "a claim takes what is not due",
        "place = number, claim.tenant_created_ms, lane.lane, claim.now_ms, room.jobs",
        "place = number, claim.tenant_created_ms, lane.lane, 1 << 60, room.jobs",
    ),
    taking(
        "a delivery has the token of the one before",
        '" token = token + 1, attempts = attempts + 1 WHERE',
        '" attempts = attempts + 1 WHERE',
        tests=FENCES,
    ),
    taking(
        "an attempt is not counted", '" token = token + 1, attempts = attempts + 1 WHERE', '" token = token + 1 WHERE'
    ),
    taking(
        "a claim has no limit of bytes",
        "            if size_bytes > self._bytes_left and not self._is_empty:",
        "            if False:",
    ),
    claim("claimed jobs are not locked", "    lock(tx, taken, claim)\n    return taken\n", "    return taken\n"),
    turns(
        "the cap of a key is that of a claim",
        "    return min(most, max_per_key - int(tx.conn.execute(RUNNING, (turn, max_per_key)).get))",
        "    return min(most, max_per_key)",
    ),
    turns(
        "keys have their turns in no order",
        "AND open = 1 ORDER BY tag, turn LIMIT ?",
        "AND open = 1 ORDER BY turn LIMIT ?",
    ),
    turns(
        "a key saves up what it did not use",
        " tag = max(tag, (SELECT served - ? FROM",
        " tag = min(tag, (SELECT served - ? FROM",
    ),
    turns(
        "a key that waits for a time is forgotten",
        "AND at IS NOT NULL AND at <= ? LIMIT ?",
        "AND at IS NOT NULL AND at < 0 * ? LIMIT ?",
    ),
    keyed(
        "a retry is overtaken by its key",
        "first = retried(self._tx, turn.turn) if cap == 1 else None\n        if",
        "first = None\n        if",
    ),
    keyed(
        "one claim takes more of a key than its cap",
        "wanted = min(places, self._share, self._room.jobs)",
        "wanted = min(self._share, self._room.jobs)",
    ),
    claim_tables(
        "a key whose job ended stays closed",
        "    UPDATE turns SET open = 1, tag = tag + (OLD",
        "    UPDATE turns SET tag = tag + (OLD",
    ),
    claim("rates are not written back", "    rates.write()\n", ""),
    rates("a rate is never used up", "held._replace(tokens=held.tokens - 1.0)", "held"),
    rates(
        "a clock that is behind refills a rate twice",
        "UPDATE rates SET tokens = ?, updated = max(updated, ?)",
        "UPDATE rates SET tokens = ?, updated = ?",
    ),
    add(
        "a job that is there is inserted over",
        'INSERT_PLAIN: Final = Bulk(f"INSERT INTO jobs ({_PLAIN})", 8, "ON CONFLICT (id) DO NOTHING")',
        'INSERT_PLAIN: Final = Bulk(f"INSERT OR REPLACE INTO jobs ({_PLAIN})", 8, "")',
    ),
    add(
        "the position is not kept with the jobs",
        "    if position is not None:\n        keep_position(tx, position)\n",
        "",
    ),
    in_file("store/sqlite/queue/expire.py", "tests/contract/store/test_leases.py -k sqlite")(
        "a run that was lost leaves no trace", "    tx.conn.executemany(_NOTE, noted)\n", ""
    ),
    add("duplicates are counted", "    if added < len(jobs):\n", "    if False:\n"),
    add(
        "a unique name is given twice",
        "AND j.uniq = ? AND j.uniq IS NOT NULL AND j.state {LIVE}",
        "AND j.uniq = ? AND j.uniq IS NULL AND j.state {LIVE}",
    ),
    add(
        "a child gets a parent of another tenant",
        "    if parent is None or parent[2] != tenant_of(job.jobtype):",
        "    if parent is None:",
        tests=RELATIVES,
    ),
    expire(
        "failed jobs are purged as all others",
        "        return self.failed_ms if code in _FAILED else self.done_ms",
        "        return self.done_ms",
        tests="tests/contract/store/test_expire_jobs.py",
    ),
    add("a big payload is cut", "    if max(sizes_bytes) > INLINE_BYTES:\n        _write_big(tx, jobs)\n", ""),
    change("a job of another tenant is found", 'WHERE j.id = ? AND t.tenant = ?"', 'WHERE j.id = ? AND ? IS NOT NULL"'),
    change(
        "a running job is cancelled",
        "is_running=row.state == State.RUNNING and not running,",
        "is_running=False,",
    ),
    change(
        "a live job is replayed",
        "row is None or row.state != State.ARCHIVED or is_noted",
        "row is None or is_noted",
    ),
    change(
        "a replay takes a name that is in use",
        " or not _take_name(tx, row):",
        ":",
    ),
    change(
        "an index waits for a name that one behind it has",
        "    return holder is None or bool(holder[1])",
        "    return holder is None",
        tests="tests/contract/store/test_consumer_names.py -k sqlite",
    ),
    change(
        "a live job is deleted",
        "    archived = [row for row in found if row is not None and row.state == State.ARCHIVED]",
        "    archived = [row for row in found if row is not None]",
    ),
    in_file("store/refusals.py", "tests/contract/store/test_job_changes.py -k sqlite")(
        "a token of another delivery may update",
        "    if change.token is not None and change.token != delivery:",
        "    if change.token is not None and delivery is None:",
    ),
    endings(
        "a parent is never woken",
        'AND state = {State.BLOCKED} AND pending = 0"',
        'AND state = {State.BLOCKED} AND pending < 0"',
    ),
    endings("a child settles its parent twice", "if row.parent and not row.settled]", "if row.parent]"),
    writer(
        "callers hear of what is not committed",
        "            self._tell()\n            counts = Tally()",
        "            counts = Tally()\n            self._untold += ended\n            self._tell()",
        equivalent="at that place nothing of this group has ended yet",
    ),
    writer(
        "a failed commit is a success",
        "            ended = [_Ended(operation, None, self._named(error)) for operation in taken]\n",
        "",
    ),
    writer(
        "callers of bulk operations hear at once",
        "    loop.call_soon(_settle, bulk)\n",
        "    _settle(bulk)\n",
    ),
    writer(
        "callers of bulk operations never hear",
        "    loop.call_soon(_settle, bulk)\n",
        "",
    ),
    writer(
        "a failed operation takes the others along",
        '            conn.execute("ROLLBACK TO operation")\n',
        '            conn.execute("ROLLBACK")\n',
    ),
    writer("half of a failed operation is kept", '            conn.execute("ROLLBACK TO operation")\n', ""),
    writer(
        "a stop leaves operations unfinished",
        "following = None if is_stopping else self._queue.take()",
        "following = None",
    ),
    maintenance(
        "a copy is not of one moment",
        '        source.execute("BEGIN")\n        _require_schema',
        "        _require_schema",
    ),
    maintenance(
        "a damaged store is verified",
        '        if problems != ["ok"]:',
        "        if False:",
        tests="tests/contract/store/test_maintenance.py tests/unit/functory/test_backup.py",
    ),
    in_file("store/refusals.py", "tests/contract/store/test_job_changes.py -k sqlite")(
        "a late worker moves the job of another",
        "    if token is not None and token != delivery:",
        "    if False:",
    ),
    connection("a SQLite that loses data is accepted", "< OLDEST_SQLITE:", "< (3, 0, 0):"),
    connection(
        "the file is readable by everybody",
        '        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")\n',
        '        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")\n        os.chmod(temporary, 0o644)\n',
    ),
    tenants(
        "a key of another tenant is deleted",
        'sql = "DELETE FROM keys WHERE key_id = ? AND tenant = ? RETURNING 1"',
        'sql = "DELETE FROM keys WHERE key_id = ? AND ? IS NOT NULL RETURNING 1"',
    ),
    tenants(
        "a tenant that goes keeps its keys", '    tx.conn.execute("DELETE FROM keys WHERE tenant = ?", (name,))\n', ""
    ),
    once(
        "what was put once is put again",
        "    if standing is not None:\n        return standing\n    tx.conn",
        "    tx.conn",
    ),
    once(
        "jobs are added under a key that another has",
        "    if standing is not None:\n        return standing\n    insert_jobs",
        "    insert_jobs",
    ),
    add("a schedule that runs is said again with another payload", 'bytes(data or b""))', "job.data)"),
    daemons(
        "a released sysid is renewed",
        '    if row is None:\n        raise NotFound(f"sysid',
        '    if False:\n        raise NotFound(f"sysid',
    ),
]

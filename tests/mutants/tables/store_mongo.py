"""MongoDB: conditions that are left out of conditional writes, and steps in the wrong order."""

from tests.mutants.mutant import Mutant, in_file

FENCES = "tests/contract/store/test_fences.py tests/contract/store/test_leases.py -k mongodb"
RELEASE = "tests/contract/store/test_release.py tests/contract/store/test_scoreboard.py -k mongodb"
KEYS = "tests/contract/store/test_keys.py tests/property/test_keys.py -k mongodb"
CLAIM = "tests/contract/store/test_claim.py tests/contract/store/test_rates.py -k mongodb"
CHANGES = "tests/contract/store/test_job_changes.py -k mongodb"
RELATIVES = "tests/contract/store/test_relatives.py -k mongodb"
CUT = "tests/mongo/test_ledger.py tests/mongo/test_cut.py"


def between(*verbs: str) -> str:
    """The races of these verbs."""
    test = "tests/contract/store/test_races.py::test_between_two_steps_anything_may_happen"
    return " ".join(f"'{test}[mongodb-{verb}]'" for verb in verbs)


release = in_file("store/mongo/queue/release.py", FENCES)
endings = in_file("store/mongo/queue/endings.py", f"{FENCES}")
expire = in_file("store/mongo/queue/expire.py", between("purge", "abandon"))
FAMILIES = "tests/contract/store/test_expire_families.py -k mongodb"
claim = in_file("store/mongo/queue/claim.py", CLAIM)
taking = in_file("store/mongo/queue/taking.py", CLAIM)
keyed = in_file("store/mongo/queue/keyed_claim.py", KEYS)
turns = in_file("store/mongo/queue/turns.py", KEYS)
window = in_file("store/mongo/queue/window.py", "tests/mongo/test_window_race.py")
create = in_file("store/mongo/queue/create.py", between("create", "replay_named"))
add = in_file(
    "store/mongo/queue/add.py", "tests/contract/store/test_add.py tests/contract/store/test_fences.py -k mongodb"
)
change = in_file("store/mongo/queue/job_changes.py", CHANGES)
relatives = in_file("store/mongo/queue/relatives.py", RELATIVES)
rates = in_file("store/mongo/queue/rates.py", CLAIM)
domains = in_file("store/mongo/queue/domain_claim.py", "tests/contract/store/test_rate_patterns.py -k mongodb")
ledger = in_file("store/mongo/server/ledger.py", CUT)
deliveries = in_file("store/mongo/server/deliveries.py", FENCES)
once = in_file("store/mongo/records/once.py", f"{between('remember')} tests/contract/store/test_tenants.py")
bulk = in_file("store/mongo/server/bulk.py", "tests/mongo/test_one_order.py")
driver = in_file(
    "store/mongo/server/driver.py", "tests/unit/store/test_mongo_driver.py tests/mongo/test_round_trips.py"
)


importing = in_file("store/mongo/records/importing.py", "tests/contract/store/test_transfer.py -k mongodb")

discard = in_file("store/mongo/queue/discard.py", "tests/contract/store/test_discard.py -k mongodb")

MUTANTS: list[Mutant] = [
    bulk("documents are changed in any order", "sorted(writes, key=_ID)", "writes"),
    bulk("what was found is changed whatever became of it", '{**which, "_id": {"$in"', '{"_id": {"$in"'),
    bulk(
        "what is found is changed as it is found", '{**which, "_id": {"$in": ids[start : start + _AT_ONCE]}}', "which"
    ),
    expire(
        "a purge takes children that a parent may ask for", "    if not parents:\n", "    if True:\n", tests=FAMILIES
    ),
    create(
        "an index waits for a name that one behind it has",
        "    return bool(nameless.matched_count) and await _pass_name(",
        "    return False and await _pass_name(",
        tests="tests/contract/store/test_consumer_names.py -k mongodb",
    ),
    discard("relatives are not kept", '"kin": False, ', ""),
    discard("a numbered job is not kept", ', "seq": None', ""),
    importing(
        "a job between two attempts is overtaken after an import", " or (state == schema.QUEUED and", " or (False and"
    ),
    importing(
        "an import that goes on does not hold the places of keys",
        "for copy in copies if _has_place(copy)",
        "for copy in missing if _has_place(copy)",
        tests="tests/mongo/test_import_cut.py",
    ),
    endings(
        "an old delivery is released",
        '        "token": document["token"],\n        "d": document.get("d"),\n',
        '        "d": document.get("d"),\n',
    ),
    endings(
        "another's delivery that was read is released",
        '        "s": schema.RUNNING,\n        "lock": owner,\n        "token"',
        '        "s": schema.RUNNING,\n        "token"',
        equivalent="a token is of one delivery, and whose that is was asked when the document was read or remembered",
    ),
    endings(
        "a job that was released meanwhile is released again",
        '        "_id": document["_id"],\n        "s": schema.RUNNING,\n',
        '        "_id": document["_id"],\n',
        equivalent="whatever ends a delivery removes the lock, and the condition asks for the owner's",
    ),
    endings(
        "a job is archived whatever became of it since",
        '    same = ("s", "token", "at", "d", "rev", "kids", "size")',
        '    same = ("size",)',
        tests=between("abandon", "cancel"),
    ),
    endings("a job given back has lost an attempt", '        "$inc": {"attempts": -1},\n', "", tests=RELEASE),
    endings(
        "a retry stays locked",
        '        "$unset": {"lock": ""},\n    }\n    if deferred:\n        update["$set"]["d"] = True\n    else:',
        '        "$unset": {},\n    }\n    if deferred:\n        update["$set"]["d"] = True\n    else:',
        equivalent="the lock of a job that is not running is never looked at without its state, and a claim sets it anew",
    ),
    release(
        "the owner of a read delivery is not asked",
        '"s": schema.RUNNING, "lock": owner}\n    rows',
        '"s": schema.RUNNING}\n    rows',
    ),
    release(
        "the token of a read delivery is not asked",
        '    return {row["_id"]: row for row in rows if row["token"] == tokens[row["_id"]]}',
        '    return {row["_id"]: row for row in rows}',
    ),
    release("another's lease is renewed", '"lock": owner, "retry_after": None}', '"retry_after": None}'),
    release("a lease is renewed with an old token", 'Group(ids, {"token": token, **mine}', "Group(ids, mine"),
    release("a fixed lease is renewed", '"lock": owner, "retry_after": None}', '"lock": owner}'),
    release(
        "what was remembered of a claim is believed",
        "            left = {job_id: left[job_id] for job_id in held if job_id not in done}",
        "            left = {}",
    ),
    deliveries(
        "what another owner claimed is remembered as ours",
        '(document["lock"], document["token"]) == (owner, token)',
        'document["token"] == token',
        equivalent="only a hint: the release is conditional on the owner, and is computed again when that fails",
    ),
    deliveries(
        "an older delivery is remembered",
        '(document["lock"], document["token"]) == (owner, token)',
        'document["lock"] == owner',
    ),
    expire(
        "a renewal between read and write is ignored",
        '{"_id": {"$in": [row["_id"] for row in rows if row not in noted]}, **lapsed},',
        '{"_id": {"$in": [row["_id"] for row in rows if row not in noted]}},',
        tests=between("expire"),
    ),
    expire(
        "a lapsed job of a rate domain is forgotten by a crash",
        ' or bool(row.get("dom") or row.get("key"))',
        "",
        tests="tests/mongo/test_lapse_cut.py",
    ),
    expire(
        "a purge takes a job that was replayed meanwhile",
        'as_read = {"s": {"$in": list(schema.ARCHIVED_STATES)}, "token": token, "replays": replays, "todo": None}',
        'as_read = {"todo": None}',
    ),
    expire(
        "a purge takes a job that ran again meanwhile",
        'as_read = {"s": {"$in": list(schema.ARCHIVED_STATES)}, "token": token, "replays": replays, "todo": None}',
        'as_read = {"s": {"$in": list(schema.ARCHIVED_STATES)}, "todo": None}',
    ),
    expire(
        "a purge takes a job that was replayed and cancelled meanwhile",
        '"token": token, "replays": replays,',
        '"token": token,',
    ),
    change("a replay leaves no trace for a purge", '"$inc": {"replays": 1},', "", tests=between("purge")),
    expire(
        "a lease is expired before its time",
        '{"at": {"$lte": now_ms}} if owner',
        '{"at": {"$lte": now_ms + 60_000}} if owner',
        tests=FENCES,
    ),
    expire(
        "due jobs stay deferred",
        '    await apply_alike(db, due, {"$unset": {"d": ""}}, effects, now_ms)',
        "    pass",
        tests="tests/mongo/test_indexes.py",
    ),
    expire(
        "what crashed calls left is never finished",
        "    await db.ledger.settle_lapsed(gone_before_ms=gone_before_ms, limit=limit)\n",
        "",
        tests=CUT,
    ),
    taking(
        "a job is claimed that another has claimed",
        '"s": QUEUED, "token": token, "rev": rev},',
        '"token": {"$gte": 0}},',
        tests=between("claim_all"),
    ),
    taking(
        "a job that was changed meanwhile is delivered as it was read",
        '"s": QUEUED, "token": token, "rev": rev},',
        '"s": QUEUED, "token": token},',
        tests=between("claim_all"),
    ),
    taking(
        "a delivery has the token of the one before",
        '"$inc": {"token": 1, "attempts": 1}}',
        '"$inc": {"attempts": 1}}',
        tests=FENCES,
    ),
    taking(
        "all that was read counts as claimed",
        "    if done.modified != len(chosen):",
        "    if False:",
        tests=between("claim_all"),
    ),
    claim(
        "a paused type is claimed from",
        '        self.closed |= document.get("paused", False) or document.get("suspended", False)',
        '        self.closed |= document.get("suspended", False)',
        tests="tests/contract/store/test_handlers.py tests/contract/store/test_claim.py -k mongodb",
    ),
    claim(
        "a suspended tenant is claimed from",
        '        self.closed |= document.get("paused", False) or document.get("suspended", False)',
        '        self.closed |= document.get("paused", False)',
        tests="tests/contract/store/test_tenants.py tests/contract/store/test_claim.py -k mongodb",
    ),
    claim(
        "jobs that a claim left are overtaken by those behind them",
        "await _claim_plain(db, rest, gate, left, is",
        "await _claim_plain(db, rest, gate, candidates[first:], is",
        tests=KEYS,
    ),
    claim(
        "of a type with keys half is claimed if all have a domain",
        "    if room.jobs > 0 and (gate.domains or left):",
        "    if room.jobs > 0 and left:",
        tests=KEYS,
    ),
    domains(
        "unused tokens are kept",
        "    await give_tokens_back(db, held, unused)\n",
        "",
        tests="tests/mongo/test_rate_race.py",
    ),
    keyed(
        "two daemons take the same place of a key",
        '    same = {"_id": turn["_id"], "v": turn["v"]}',
        '    same = {"_id": turn["_id"]}',
        tests="tests/mongo/test_key_race.py",
    ),
    keyed(
        "a retry is overtaken by its key",
        "        if first := first_queued(offer.retried):",
        "        if first := None:",
    ),
    keyed(
        "a retry that could not be taken loses its place",
        "[*offer.counting, *entries, *retried]",
        "[*offer.counting, *entries]",
    ),
    keyed("a cap of one forgets the retries of another cap", "if not offer.has_all and", "if False and"),
    turns(
        "a job that is added makes a search of its key begin anew",
        '"claims": turn.get("claims")}',
        '"v": turn["v"]}',
        tests="tests/mongo/test_key_race.py",
    ),
    window("a job that is held beside the end of its consumer stays held", "    if free:", "    if False:"),
    turns(
        "a place that is held comes in a second time",
        ', "held.job": {"$ne": job.id}}',
        "}",
        tests="tests/contract/store/test_transfer.py -k mongodb",
    ),
    turns(
        "a place that is not locked yet is given to another",
        '            elif job["s"] == QUEUED and job["token"] == entry["token"] - 1:\n                counting.append(entry)\n',
        '            elif job["s"] == QUEUED and job["token"] == entry["token"] - 1:\n',
        tests="tests/mongo/test_key_race.py",
    ),
    turns(
        "a place is given away without a fence",
        '{"$inc": {"rev": 1}}',
        '{"$inc": {"other": 1}}',
        tests="tests/mongo/test_key_race.py",
    ),
    rates(
        "two daemons take the same tokens",
        'update_one({"_id": held.key, "version": held.version}, {"$set": left',
        'update_one({"_id": held.key}, {"$set": left',
        tests="tests/mongo/test_rate_race.py",
    ),
    domains(
        "a lane without a token stays in the way",
        '            steps += _moved(look.lane, next_ms, look.lane["top"], until',
        '            _moved(look.lane, next_ms, look.lane["top"], until',
    ),
    ledger(
        "a count that no majority confirmed is not made again",
        "if is_unconfirmed or any(",
        "if any(",
    ),
    ledger(
        "jobs that enter a lane are not found",
        "        await open_lanes_of(self._collections, effects)\n",
        "",
        tests="tests/contract/store/test_rate_patterns.py -k mongodb",
    ),
    create(
        "a name that was removed and made anew is taken for the old one",
        '"version": secrets.randbits(52)}',
        '"version": 1}',
        tests="tests/mongo/test_name_sweep.py",
    ),
    expire(
        "names stay when their jobs are purged",
        "        await drop_names(db, rows)\n",
        "",
        tests="tests/mongo/test_name_sweep.py",
    ),
    create(
        "a name is taken without looking whose it is",
        '        {"_id": key, "version": name["version"]}, {"$set"',
        '        {"_id": key}, {"$set"',
    ),
    create(
        "a name goes to a job and to its replayed holder",
        '    if name["job"] != job_id and not await _keep_ended(db, name["job"]):\n        return False\n',
        "",
    ),
    create(
        "a creator that lost the name goes on",
        "        await drop_hidden(db, hidden, now_ms)\n        return None\n    return await _appear",
        "        pass\n    return await _appear",
    ),
    create(
        "a live job is changed as it was read",
        "    step = Step(as_read(document), {key: value",
        '    step = Step({"_id": document["_id"]}, {key: value',
        tests=between("put_off", "create"),
    ),
    add(
        "the position is written before the jobs",
        "        added = await add_batch(self, jobs, now_ms)\n        if position is not None:\n            await keep_position(self, position)\n",
        "        if position is not None:\n            await keep_position(self, position)\n        added = await add_batch(self, jobs, now_ms)\n",
    ),
    add(
        "duplicates are counted",
        "        change.applied = [effect for i, effect in enumerate(effects) if i not in refused]",
        "        change.applied = effects",
    ),
    add(
        "a write that no majority confirmed is acknowledged",
        '    if error.details.get("writeConcernErrors"):',
        "    if False:",
        tests="tests/unit/store/test_mongo_add.py",
    ),
    change(
        "a running job is cancelled",
        'is_running = job["s"] == schema.RUNNING and not running',
        "is_running = False",
    ),
    change(
        "a replay takes a name that is in use",
        '            if "unique" in job and await name_for_replay(self, job, now_ms):',
        '            if "unique" in job:',
    ),
    relatives(
        "a parent is woken while it is waited for",
        "        if parent is None or await _is_waited_for(db, parent_id):",
        "        if parent is None:",
    ),
    ledger(
        "a change is counted again after a crash",
        '        conditions = {key: {"_id": key, seen: {"$not": {"$gte": number}}} for key in updates}',
        '        conditions: Document = {key: {"_id": key} for key in updates}',
    ),
    ledger(
        "what failed in between is never counted",
        "            except BaseException:\n                self._doubtful.append(writer)\n                raise\n            self._idle.append(writer)",
        "            except BaseException:\n                raise\n            self._idle.append(writer)",
    ),
    ledger(
        "a writer that was taken over goes on",
        '            {"_id": writer.number, "owner": self._owner, "last": {"$in": [writer.last, number]}},',
        '            {"_id": writer.number},',
    ),
    once(
        "of two first requests both are first",
        "            except DuplicateKeyError:\n                continue\n            return value\n        if standing",
        "            except DuplicateKeyError:\n                pass\n            return value\n        if standing",
    ),
    Mutant(
        "a leader that is wrong starts more on MongoDB",
        "store/mongo/records/consumers.py",
        "            released = max(before or 0, processed)\n",
        "            pass\n",
        "tests/contract/store/test_consumers.py -k mongodb",
    ),
    driver(
        "a disturbance of the database under the server is a refusal", "    {1, 6, 7, 18, 64,", "    {6, 7, 18, 64,"
    ),
    in_file("store/mongo/queue/taking.py", "tests/mongo/test_claim_reads.py")(
        "a claim reads every payload that it looks at", "<= 2 * MAX_DATA_BYTES", "<= 1 << 60"
    ),
    driver("a write counts before a majority has it", '            w="majority",', "            w=1,"),
    driver("a write counts before it is in the journal", "            journal=True,", "            journal=False,"),
]

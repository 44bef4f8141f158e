"""Rate domains by pattern: too many jobs of one, or one that waits for ever."""

from tests.mutants.mutant import Mutant, in_file

PATTERNS = "tests/contract/store/test_rate_patterns.py -k sqlite"
KEYS = "tests/contract/store/test_keys_and_rates.py"

rates = in_file("store/sqlite/queue/rates.py", PATTERNS)
domains = in_file("store/sqlite/queue/domain_claim.py", PATTERNS)
tally = in_file("store/sqlite/file/tally.py", PATTERNS)
rules = in_file("store/rate_rules.py", PATTERNS)
in_mongo = in_file("store/mongo/queue/domain_claim.py", "tests/mongo/test_rate_race.py")
keyed = in_file("store/sqlite/queue/keyed_claim.py", f"{KEYS} -k sqlite")
waits = in_file("store/sqlite/queue/rates.py", f"{KEYS} -k sqlite")
keyed_in_mongo = in_file("store/mongo/queue/keyed_claim.py", f"{KEYS} -k mongodb")
NEXT = "tests/contract/store/test_next_token.py"
next_rule = in_file("store/claim_rules.py", f"{NEXT} -k sqlite")
next_in_mongo = in_file("store/mongo/queue/domain_claim.py", f"{NEXT} -k mongodb")
kept = in_file("store/rate_rules.py", "tests/property/test_rate_tokens.py")
alarm = in_file("functory/loops/token_alarm.py", "tests/unit/functory/test_token_alarm.py")
under_way = in_file("functory/execution/claims_under_way.py", "tests/unit/functory/test_token_pace.py")
executor = in_file("functory/execution/executor.py", "tests/unit/functory/test_token_pace.py")
waits_in_mongo = in_file("store/mongo/queue/token_waits.py", "tests/mongo/test_rate_race.py")

CLAIMS = "tests/contract/store/test_domains_of_claims.py"
TYPES = "tests/service/test_domains_of_types.py -k sqlite"
of_claims = in_file("store/sqlite/queue/claim.py", f"{CLAIMS} -k sqlite")
next_of_claims = in_file("store/sqlite/queue/next_token.py", f"{CLAIMS} -k sqlite")
of_claims_in_mongo = in_file("store/mongo/queue/domain_claim.py", f"{CLAIMS} -k mongodb")
named_before = in_file("store/sqlite/queue/token_waits.py", f"{CLAIMS} -k sqlite")
reopened = in_file("store/sqlite/queue/rates.py", f"{CLAIMS} -k sqlite")
waits_of_claims_in_mongo = in_file("store/mongo/queue/token_waits.py", f"{CLAIMS} -k mongodb")
unseen = in_file("functory/execution/handler_cache.py", TYPES)
of_handlers = in_file("functory/execution/claims_under_way.py", TYPES)
LANES = "tests/unit/store/test_sqlite_lanes.py"
board = in_file("store/sqlite/records/scoreboard.py", LANES)
listing = in_file("store/sqlite/queue/listing.py", LANES)
sums = in_file("store/sqlite/file/claim_tables.py", LANES)

MUTANTS: list[Mutant] = [
    board("what waits without a domain is counted twice", "(waiting - counted if is_many else waiting)", "waiting"),
    listing("jobs of lanes that waited for a token have no place", " OR l.until > ?3)", ")"),
    listing("a position is beyond its cap", "if ahead < cap else 0", "if ahead < 0 else 0"),
    sums("the counts of an older file are lost", "WHERE types.type = s.type;", "WHERE FALSE;"),
    sums("running jobs are not counted", "running = running + NEW.running - OLD.running", "running = running"),
    of_claims(
        "the domain of a claim holds for nobody", "        if rates.is_limited(claim.domain):", "        if False:"
    ),
    next_of_claims(
        "who waits for the token of a claim waits for a poll", "if is_waiting else None", "if False else None"
    ),
    of_claims_in_mongo(
        "jobs with and without the domain take a token each at once",
        "            if domain in left:\n                left[domain] -= 1\n",
        "",
    ),
    named_before(
        "keys wait for what claims named before",
        "    for (domain,) in fetch(tx.conn, NAMED_BEFORE, ",
        "    for (domain,) in () and fetch(tx.conn, NAMED_BEFORE, ",
    ),
    reopened("a changed limit wakes no keys of claims", "if kinds.has_keys:", "if kinds.has_domains:"),
    waits_of_claims_in_mongo("keys wait for what claims named before", "[*before.values(), ", "["),
    waits_of_claims_in_mongo(
        "keys that waited are forgotten by claims without the domain",
        "    if OF_CLAIMS + claim.domain in seen:",
        "    if False:",
    ),
    unseen("jobs that need a token start before the store has them", " and not handler.domain)", ")"),
    of_handlers("the domain of a handler is not used", "                domain=handler.domain,\n", ""),
    rates(
        "a bucket is collected that a slower limit holds",
        "if found is None or tokens >= found.burst:",
        "if found is None or tokens >= 0:",
    ),
    rates(
        "lanes rest on when their limit is lifted",
        "ready > ?3 AND until > ?3",
        "ready < 0",
    ),
    domains(
        "a lane without a token stays in the way",
        "            changed.append((until_ms, until_ms, lane.lane))\n",
        "",
    ),
    domains(
        "a lane is left when its jobs come later",
        "self._tx.conn.execute(_NEXT, (source.lane.lane,)).get",
        "None",
    ),
    tally("jobs that enter a lane are not found", "        conn.executemany(_READY, ", "        print(_READY, "),
    rules(
        "the broadest pattern wins",
        "    return -len(literal_prefix(limit.name))",
        "    return len(literal_prefix(limit.name))",
    ),
    rules(
        "a new rate holds for the time before it",
        "set_ms = min(max(limit.set_ms, updated_ms)",
        "set_ms = min(max(0, updated_ms)",
    ),
    in_mongo(
        "a lane that a job entered meanwhile is closed",
        '    return {"_id": lane["_id"], "v": lane["v"]}\n',
        '    return {"_id": lane["_id"]}\n',
        tests="tests/mongo/test_lanes.py",
    ),
    in_mongo(
        "tokens that came back are not used before the next",
        "    await reopen_domains(db, claim.jobtype, unused)\n",
        "",
    ),
    keyed(
        "a key without a token is looked at again and again",
        "at_ms=None, domain=without_token))",
        "at_ms=now_ms + 1000))",
    ),
    waits(
        "keys that wait for a token do not hear of a changed limit",
        "resting.append((_REOPEN_WAITS, (number, now_ms)))",
        "pass",
    ),
    keyed_in_mongo("a key without a token is forgotten", ', "dom": without_token}', "}"),
    waits_in_mongo(
        "a limit that is changed while a claim closes keys is not seen by them",
        "    await reopen_domains(db, jobtype, [domain",
        "    print([domain",
    ),
    kept("a token that is taken late is lost", "    most = burst + kept_part(rate_per_s)\n", "    most = burst\n"),
    kept("more than a burst at once", "MOST_KEPT: Final = 0.9", "MOST_KEPT: Final = 5"),
    next_rule(
        "what was not looked at waits for a token",
        "    if soonest_ms is None or soonest_ms <= now_ms:",
        "    if soonest_ms is None:",
    ),
    next_rule(
        "a deferred job is taken for one without a token",
        "return soonest_ms if has_waits else None",
        "return soonest_ms",
    ),
    next_in_mongo("nobody is told of a lane without a token", ", until_ms=next_ms)", ")"),
    next_in_mongo(
        "a claim that left jobs says to wait", "is_all=len(taken) == len(offered) < claim.limit", "is_all=True"
    ),
    alarm("a time that counts no longer rings", "if self._at_s.get(jobtype) == at_s:", "if True:"),
    alarm("many types leave the loop no time", "ended_s + _PAUSE_PART * (ended_s - began_s)", "ended_s"),
    under_way(
        "jobs that come during a claim wait for its token",
        "                jobs.next_ms = None\n",
        "                pass\n",
    ),
    executor(
        "a token that came is looked for, not taken",
        "        if not self._start_known():\n            self._rested()",
        "        self._rested()",
    ),
]

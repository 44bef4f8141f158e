"""Bugs of schedules: rounds that leave no trace, pauses that do not hold, extra rounds that move the next one."""

from tests.mutants.mutant import Mutant, in_file

STORE = (
    "tests/contract/store/test_schedules.py tests/contract/store/test_extra_rounds.py"
    " tests/contract/store/test_paused_schedules.py"
)

values = in_file("store/values/schedules.py", f"{STORE} -k sqlite")
sqlite = in_file("store/sqlite/queue/schedules.py", f"{STORE} tests/contract/store/test_rounds.py -k sqlite")
endings = in_file("store/sqlite/queue/endings.py", f"{STORE} -k sqlite")
mongo = in_file("store/mongo/queue/endings.py", f"{STORE} -k mongodb")
changes = in_file("store/mongo/queue/schedules.py", f"{STORE} -k mongodb")
asked = in_file("functory/operations/schedules.py", "tests/web/test_schedule_changes.py")

MUTANTS: list[Mutant] = [
    values("rounds grow without end", "schedule.rounds[1 - MOST_ROUNDS :]", "schedule.rounds"),
    values(
        "an extra round comes again and again", "_replace(rounds=rounds, regular_ms=None)", "_replace(rounds=rounds)"
    ),
    values("a second pause hides the first", "schedule.pause or change.pause", "change.pause or schedule.pause"),
    values("a pause breaks a round off", "pause is not None and not has_begun and", "pause is not None and"),
    values("a pause loses the regular round", "due_ms, regular_ms = regular_ms, None", "regular_ms = None"),
    sqlite(
        "a calendar that is changed stays in the old round",
        "        tx.conn.execute(_ANEW, (row.n,))\n",
        "        pass\n",
    ),
    sqlite(
        "a paused schedule that ends is lost from the list", "(change.repeat, row.n)", "(change.repeat or None, row.n)"
    ),
    in_file("store/mongo/queue/listing.py", f"{STORE} -k mongodb")(
        "a paused schedule that ends is lost from the list (MongoDB)",
        '{"$or": [{"repeat": {"$gt": ""}}, {"s": schema.HELD}]}',
        '{"repeat": {"$gt": ""}}',
    ),
    sqlite(
        "a resume does not move the next round of one that waits for children",
        "        move_next_round(tx, row.id, plan.due_ms)\n",
        "        pass\n",
    ),
    sqlite(
        "an extra round of a paused schedule has old attempts",
        "if plan.is_anew and (in_queue or on_hold):",
        "if plan.is_anew and in_queue:",
    ),
    sqlite(
        "a child is listed as a schedule",
        "if change.repeat is not None and row.repeat is not None:",
        "if change.repeat is not None:",
    ),
    changes(
        "a resume does not move the next round of one that waits for children (MongoDB)",
        'document["next"] if _is_after_round(document) else document["due"]',
        'document["due"]',
    ),
    changes(
        "a new time of one that waits for children is lost (MongoDB)",
        '        fields["next"] = due_ms\n',
        "        pass\n",
    ),
    sqlite("a paused schedule counts as waiting", "state = State.HELD if plan.on_hold else", "state = "),
    endings(
        "a paused schedule goes on after its round", "State.HELD if schedule.pause else queued_state", "queued_state"
    ),
    endings(
        "an extra round moves the next", "due_ms if schedule.regular_ms is None else schedule.regular_ms", "due_ms"
    ),
    mongo("a paused schedule goes on after its round (MongoDB)", 'return "pause" in', 'return "never" in'),
    mongo("an extra round moves the next (MongoDB)", '.get("regular", due_ms)', '.get("never", due_ms)'),
    mongo(
        "a round that is given back begins (MongoDB)",
        'document["attempts"] > 1 or "planned" in document',
        "True",
    ),
    in_file("store/sqlite/queue/release.py", f"{STORE} -k sqlite")(
        "a round that is given back begins", "State.HELD if on_hold else", ""
    ),
    in_file("store/sqlite/queue/release.py", f"{STORE} -k sqlite")(
        "a round that is given back breaks off", "row.attempts > 1 or row.planned is not None", "False"
    ),
    in_file("store/sqlite/queue/expire.py", f"{STORE} -k sqlite")(
        "an extra round that waits too long ends its schedule",
        "extra = [row for row in rows if row.repeat]",
        "extra = []",
    ),
    in_file("store/sqlite/queue/expire.py", f"{STORE} -k sqlite")(
        "a schedule ends while its type is paused", "ifnull(repeat, '') = ''", "1"
    ),
    in_file("store/sqlite/queue/expire.py", f"{STORE} -k sqlite")(
        "children of an extra round that is dropped stay", " if row.pending else []", " if False else []"
    ),
    in_file("store/mongo/queue/expire.py", f"{STORE} -k mongodb")(
        "an extra round that waits too long ends its schedule (MongoDB)", 'if document.get("repeat")]', "if False]"
    ),
    in_file("store/mongo/queue/expire.py", f"{STORE} -k mongodb")(
        "a schedule ends while its type is paused (MongoDB)",
        '"claimed": not_since, "$or": ends}',
        '"claimed": not_since}',
    ),
    asked(
        "a missed round of the calendar is made up for",
        "    if due_ms > now_ms or not found.job.repeat:",
        "    if True:",
    ),
    values("a new time is lost while children run", "regular_ms, is_anew = change.dt_ms, False", "is_anew = False"),
    values("a new time takes an extra round back", 'regular_ms is not None and change.repeat != ""', "False"),
    in_file("functory/web/pages/schedule_form.py", "tests/web/test_schedule_form.py")(
        "a form puts back what a round carried on", "== shown.payload else", "== _as_shown(now).payload else"
    ),
    in_file("functory/operations/jobs.py", "tests/service/test_cancel.py")(
        "a schedule is said again and gone", "    await _announce_cancel(service, tenant, job_id)\n", ""
    ),
]

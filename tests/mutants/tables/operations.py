"""What the interface promises: keys, sessions, quotas, read your writes, repeat without doubling."""

from tests.mutants.mutant import Mutant, in_file

KEYS = "tests/web/test_security.py tests/web/test_admin.py"
SESSIONS = "tests/web/test_pages_security.py"
SUBMIT = "tests/web/test_add.py tests/web/test_jobs.py tests/web/test_why.py"
JOBS = "tests/web/test_jobs.py tests/web/test_why.py"
HUNG = "tests/web/test_hung_store.py"

keyring = in_file("functory/operations/keyring.py", KEYS)
allowance = in_file("functory/operations/allowance.py", "tests/web/test_limits.py")
looks = in_file("functory/loops/one_look.py", "tests/unit/functory/test_one_look.py")
principal = in_file("functory/operations/principal.py", f"tests/web/test_scopes.py {KEYS}")
searching = in_file("functory/operations/searching.py", "tests/web/test_searching.py")
sessions = in_file("functory/operations/sessions.py", SESSIONS)
quotas = in_file(
    "functory/intake/admission.py", "tests/web/test_security.py tests/web/test_add.py tests/web/test_jobs.py"
)
submit = in_file("functory/operations/submit.py", SUBMIT)
idempotency = in_file("functory/operations/idempotency.py", SUBMIT)
jobs = in_file("functory/operations/jobs.py", JOBS)
job_log = in_file("functory/operations/job_log.py", "tests/web/test_job_log.py")
bulk = in_file("functory/operations/bulk.py", "tests/web/test_bulk.py")
many_jobs = in_file("functory/cli/many_jobs.py", "tests/web/test_command_line_bulk.py")
exports = in_file("functory/cli/job_listing.py", "tests/web/test_command_line_export.py")
keys = in_file("functory/operations/keys.py", KEYS)
tenants = in_file("functory/operations/tenants.py", KEYS)
handlers = in_file("functory/operations/handlers.py", "tests/web/test_handlers.py tests/web/test_security.py")

create = in_file("functory/operations/create.py", "tests/web/test_create.py")

patterns = in_file("functory/operations/type_patterns.py", "tests/web/test_bulk.py")
glob = in_file("vocabulary/glob.py", "tests/property/test_glob.py")

MUTANTS: list[Mutant] = [
    handlers(
        "who registers at the same time passes the quota of handlers",
        "    async with service.count_turns.of(who.tenant):\n        if await service.store.get_handler(who.tenant, jobtype)"
        " is None:\n            await _check_quota(service, who)\n        yield\n",
        "    yield\n",
        tests="tests/web/test_limits.py -k same_time",
    ),
    handlers(
        "handlers that are registered at the same time are counted together",
        "    async with service.count_turns.of(who.tenant):\n        if",
        "    if True:\n        if",
        tests="tests/web/test_limits.py -k same_time",
    ),
    in_file("functory/operations/job_changes.py", "tests/web/test_job_changes.py")(
        "a payload is changed without a trace",
        '        service.control.wake()\n    await audit(service, who.key_id, "job.update", who.tenant, id=job_id)\n',
        "        service.control.wake()\n",
    ),
    in_file("functory/operations/job_changes.py", "tests/web/test_job_changes.py -k may_submit")(
        "who may manage makes jobs of any type",
        '        who.require("submit")\n',
        "        pass\n",
    ),
    in_file("functory/operations/type_controls.py", "tests/web/test_job_changes.py")(
        "a rate is lifted without a trace",
        '    await audit(service, actor, "rate.delete", tenant, domain=domain)\n',
        "",
    ),
    Mutant(
        "a job that waits for room seems to be on its way",
        "functory/operations/why.py",
        "    if hold in _HOLDS:\n        return hold",
        "    if False:\n        return hold",
        "tests/web/test_jobs.py -k while_the_store",
    ),
    Mutant(
        "why sends people to daemons that get no packages",
        "functory/operations/why.py",
        'info_of(it).no_packages.get(lang, "")',
        '""',
        "tests/web/test_packages_elsewhere.py",
    ),
    create(
        "jobs of several types pass the quota",
        "            await _admit(service, who, jobs, size_bytes)\n",
        "            pass\n",
    ),
    create(
        "jobs that are refused for their number are counted among the types",
        "    await service.admission.check_room(who.tenant, who.limits, jobs=len(jobs), size_bytes=size_bytes)\n",
        "",
    ),
    create(
        "jobs that are refused for their types make room",
        "    await service.admission.take(who.tenant, who.limits, jobs=len(jobs), size_bytes=size_bytes)\n",
        "    await service.admission.take(who.tenant, who.limits, jobs=-len(jobs), size_bytes=-size_bytes)\n",
        tests="tests/web/test_admission.py -k make_no_room",
    ),
    create("a key is not bound", "        ids = await bind_key(", "        await bind_key("),
    create(
        "jobs that are gone are created again",
        "        await note_added(service, who.tenant, ids)\n",
        "        pass\n",
        tests="tests/service/test_repeated_requests.py",
    ),
    create(
        "what a crash left out is not created",
        "await were_added(service, who.tenant, ids)",
        "True",
        tests="tests/service/test_repeated_requests.py",
    ),
    create(
        "only the first type is checked",
        "    for type_name, some in by_type.items():\n",
        "    for type_name, some in list(by_type.items())[:1]:\n",
    ),
    keyring("any secret opens", "        if key is None or not is_right or (", "        if key is None or ("),
    keyring(
        "an expired key opens",
        "not is_right or (key.expires_ms is not None and key.expires_ms <= now_ms):",
        "not is_right:",
    ),
    keyring("a key of a deleted tenant opens", "    if tenant is None or tenant.deleting:", "    if tenant is None:"),
    keyring(
        "a verified key opens for ever",
        "        if abs(now_ms - known.checked_ms) >= LIFE_S * 1000 or known.principal.has_expired(now_ms):",
        "        if known.principal.has_expired(now_ms):",
    ),
    keyring(
        "a key that ends while it is remembered opens",
        "        if abs(now_ms - known.checked_ms) >= LIFE_S * 1000 or known.principal.has_expired(now_ms):",
        "        if abs(now_ms - known.checked_ms) >= LIFE_S * 1000:",
    ),
    keyring(
        "without the store every known key opens for ever",
        "        if known is not None and abs(now_ms - known.checked_ms) > GRACE_S * 1000:",
        "        if False:",
    ),
    keyring("a store that hangs holds up known keys", "changes), known=known\n", "changes)\n", tests=HUNG),
    keyring(
        "a store that hangs holds up who has waited", "asyncio.timeout(PATIENCE_S)", "asyncio.timeout(None)", tests=HUNG
    ),
    keyring(
        "a key that is revoked stays known", "            self._cache.by_digest.pop(digest, None)\n", "", tests=HUNG
    ),
    looks("each has the patience of one", "now.begun_s + PATIENCE_S - loop.time()", "PATIENCE_S"),
    looks("whoever knows an answer gets that one", "if now.task.done() else known", "if False else known"),
    quotas("a store that hangs holds up who has a quota", "_look(tenant), known=seen)", "_look(tenant))", tests=HUNG),
    allowance("the limit of types that all have is not told", "    if limits.max_types is None:", "    if False:"),
    quotas(
        "types that are over count",
        "    return row.paused or ",
        "    return True or ",
        tests="tests/web/test_limits.py",
    ),
    quotas("a store that hangs holds up new types", ", now_ms), known=known)", ", now_ms))", tests=HUNG),
    keyring(
        "a session outlives its key",
        "        return _if_valid(known, now_ms)\n\n    def _recent",
        "        return known.principal\n\n    def _recent",
        tests="tests/web/test_waiting.py",
    ),
    principal("a suspended tenant goes on", '        if self.suspended and scope != "read":', "        if False:"),
    principal("a missing scope is no matter", "        if scope not in self.scopes:", "        if False:"),
    principal("another tenant's path is no matter", "        if tenant != self.tenant:", "        if False:"),
    sessions(
        "a session never ends",
        "        if known[0].expires_ms <= now_ms:",
        "        if False:",
        equivalent="the note is gone from the store at that time, and it is read again within the recheck time",
    ),
    sessions(
        "signing out leaves the session",
        "            await self._service.store.drop_note(_name(cookie))",
        "            pass",
    ),
    sessions(
        "the token of a form is the same for all",
        'hmac.new(cookie.encode(), b"functory form", hashlib.sha256).hexdigest()',
        'hmac.new(b"x", b"functory form", hashlib.sha256).hexdigest()',
    ),
    sessions(
        "the store keeps cookies that can be used",
        '    return "session:" + hashlib.sha256(cookie.encode()).hexdigest()',
        '    return "session:" + cookie',
        tests="tests/unit/functory/test_secrets.py tests/web/test_pages_security.py",
    ),
    quotas("jobs have no quota", '        _check("jobs", seen.jobs + jobs, limits.max_jobs)\n', ""),
    quotas("bytes have no quota", '        _check("bytes", seen.size_bytes + size_bytes, limits.max_bytes)\n', ""),
    quotas("what was just taken does not count", "        seen.jobs += jobs\n", ""),
    submit(
        "lines have no quota",
        "    if who.limits.max_jobs is not None or who.limits.max_bytes is not None:\n        await _take_quota",
        "    if False:\n        await _take_quota",
        tests="tests/web/test_security.py -k quotas",
    ),
    quotas(
        "types have no limit",
        '            _check("types", len(wanted), limit)\n',
        "",
        tests="tests/service/test_tenant_limits.py -k types",
    ),
    idempotency(
        "what a repeated request finds gone is added again",
        ", now_ms=service.now_ms()) is not None\n",
        ", now_ms=service.now_ms()) is not None and False\n",
        tests="tests/service/test_repeated_requests.py",
    ),
    idempotency("an idempotency key stands for any content", "    is_same = whole in {", "    is_same = {"),
    idempotency(
        "an idempotency key stands for any reading of its body",
        " if _has_more(fingerprint) else None",
        " if False else None",
        tests="tests/web/test_idempotency_keys.py",
    ),
    idempotency(
        "a repeated request adds again",
        "    return _ids_from(first, len(mine))\n",
        "    return mine\n",
    ),
    submit(
        "it is not known that all was added",
        "    await note_added(service, who.tenant, ids)\n",
        "",
        tests="tests/service/test_repeated_requests.py",
    ),
    submit(
        "all counts as added before it is",
        "        if await were_added(service, who.tenant, ids):\n",
        "        if True:\n",
        tests="tests/service/test_repeated_requests.py",
    ),
    submit(
        "a repeated request adds none of what is missing",
        "    missing = await _missing(service, who, jobtype, jobs, ids)\n",
        "    missing: list[int] = []\n",
    ),
    idempotency(
        "an idempotency key has no quota",
        "        await admit()\n",
        "",
        tests="tests/web/test_security.py -k quotas",
    ),
    submit(
        "a unique job passes lines that came before it",
        "    await service.intake.flush(tenant_of(jobtype))\n    return",
        "    return",
    ),
    submit(
        "children are left out",
        "    children = [pair for pair in zip(jobs, ids, strict=True) if pair[0].parent]\n",
        "    children: list[tuple[Submission, str]] = []\n",
        tests="tests/web/test_waiting.py",
    ),
    submit(
        "ids come back in another order",
        "            ids[number] = job_id\n",
        "            ids[-number - 1] = job_id\n",
    ),
    submit(
        "an accepted job is not known at once",
        "    service.accepted.note(ids, jobtype, options)\n",
        "",
        tests="tests/web/test_jobs.py tests/web/test_add.py tests/unit/functory/test_accepted.py",
    ),
    jobs(
        "a job is not found until it is in the store",
        "        if record is None and await _flush_for(service, tenant, job_id, sysid):",
        "        if False:",
    ),
    jobs(
        "an end between two looks is missed",
        "            if not await heard:",
        """            heard.cancel()
            heard = asyncio.ensure_future(service.waiters.wait(job_id, max(deadline - loop.time(), 0.0)))
            if not await heard:""",
        tests="tests/web/test_waiting.py",
    ),
    job_log(
        "what was printed between the last look and the end is lost",
        "            yield LogPart(_since(found, attempt, offset) if attempt else found.outcome.log, found)",
        '            yield LogPart(b"", found)',
    ),
    job_log("what was shown is shown again", "    return kept[offset - begins :]", "    return kept"),
    bulk(
        "a dry run cancels",
        "        if dry_run or not ids:\n            return BulkReport(ids, 0, more, found.schedules)\n",
        "",
    ),
    in_file("functory/operations/service.py", "tests/web/test_bulk.py")(
        "a tenant cancels and deletes many jobs as often at a time as it likes",
        "TenantTurns(Semaphore(16), 1, (StoreUnavailable,))",
        "TenantTurns(Semaphore(16), 9, (StoreUnavailable,))",
    ),
    in_file("functory/operations/finding.py", "tests/web/test_bulk.py")(
        "a pattern that matches nothing means all",
        "tuple(await types_matching(service, tenant, pattern))",
        "tuple(await types_matching(service, tenant, pattern)) or None",
    ),
    bulk("schedules are cancelled with the rest", "(self._schedules or not record.job.repeat)", "True"),
    bulk("what is added later is cancelled, too", " and record.job.create_ms < self._until_ms", ""),
    exports("a large job is exported without its result", "job if _is_whole(job) else", "job if True else"),
    exports("an export ends with its first page", "if (cursor := page.cursor) is None:", "if True:"),
    exports(
        "an export is no JSON where a terminal cannot show it",
        "json.dumps(msgspec.to_builtins(whole))",
        "json.dumps(msgspec.to_builtins(whole), ensure_ascii=False)",
    ),
    exports("what was deleted meanwhile is not counted", "                gone += 1\n", ""),
    Mutant(
        "rolling back from a copy of a copy leads to what was before the copy",
        "functory/cli/handlers.py",
        "    while active is not None and (original",
        "    if active is not None and (original",
        "tests/web/test_command_line_guidance.py -k rolling",
    ),
    Mutant(
        "a try does not say what it would carry on",
        "functory/web/pages/editor.py",
        '"tried_carried": None if tried.carried is None else inert_text.show(tried.carried)',
        '"tried_carried": None',
        "tests/web/test_editor_page.py -k try",
    ),
    many_jobs(
        "a command goes on past the number that was asked",
        "        return math.inf\n    return asked.matched",
        "        pass\n    return math.inf",
    ),
    many_jobs("what comes while a command goes on is changed, too", "        request[until] = min(", "        min("),
    patterns(
        "a pattern matches every type",
        "        if matches(type_of(row.jobtype)):",
        "        if matches:",
    ),
    patterns(
        "a pattern of the pages may have any length",
        "    if len(pattern) > MOST_CHARS:",
        "    if False:",
        tests="tests/unit/functory/test_slices.py",
    ),
    patterns(
        "names are compared in one go",
        "        await slices.spend(cost)\n",
        "",
        tests="tests/unit/functory/test_slices.py",
    ),
    glob("a pattern may have any length", "    if len(pattern) > MOST_CHARS:", "    if False:"),
    glob("stars are not collapsed", "[text for text in rest[:-1] if text]", "rest[:-1]"),
    glob(
        "stars between sets are not collapsed", "            if parts[-1] or len(parts) == 1:", "            if True:"
    ),
    glob("a miss does not end a comparison", "            if at < 0:", "            if False:"),
    glob("a text that is too short is compared", "if size < self._width or not", "if not"),
    glob("parts of a pattern overlap", "        return at <= end", "        return True"),
    keys(
        "a revoked key opens here for a while",
        '        raise NotFound(f"there is no key {key_id}")\n    await audit(service, actor, "key.revoke", tenant, key=key_id)\n    service.verified_keys.forget()',
        '        raise NotFound(f"there is no key {key_id}")\n    await audit(service, actor, "key.revoke", tenant, key=key_id)',
    ),
    keys(
        "a rotated key never ends",
        "        await service.store.set_key_expiry(tenant, key_id, ends_ms)",
        "        pass",
    ),
    keys("a key of another tenant is rotated", "    if key is None or key.tenant != tenant:", "    if key is None:"),
    tenants("a tenant may be called like a path of ours", "    if name in RESERVED:", "    if False:"),
    tenants(
        "a suspended tenant goes on for a while",
        "    service.verified_keys.forget()\n    await service.control.tenants_changed()\n    return tenant",
        "    await service.control.tenants_changed()\n    return tenant",
    ),
    handlers(
        "a handler takes the network without leave",
        "    if handler.network and not who.limits.network:",
        "    if False:",
    ),
    handlers(
        "handlers have no quota",
        "        await _check_quota(service, who)\n    handler = await with_packages",
        "        pass\n    handler = await with_packages",
    ),
    handlers(
        "an unreadable handler is stored",
        "        await service.trial_runs.check(jobtype, handler)\n    else:",
        "        pass\n    else:",
    ),
    searching("a search has no end", "or looked_at >= MOST_LOOKED_AT", ""),
    searching(
        "a page has more jobs than were asked for",
        "> (room := limit - len(found))",
        "> 1000 + (room := limit - len(found))",
    ),
    searching("a search goes on for nobody", "while is_heard():", "while True:"),
    searching("letters must be written as they are in the payload", ".casefold() or wanted", " or wanted"),
    searching("errors are not looked at", " or wanted in message.casefold()", ""),
    searching("all that was read of a payload is shown", "data=record.job.data[:max_bytes]", "data=record.job.data"),
    searching(
        "a tenant searches as often as it likes", "    async with service.search_turns.of(tenant):", "    if True:"
    ),
]

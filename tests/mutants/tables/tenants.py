"""Tenants that come and go: what one had is not for another of its name, and quotas hold."""

from tests.mutants.mutant import Mutant, in_file

AGAIN = "tests/service/test_names_used_again.py"
UNHEARD = "tests/service/test_names_unheard.py -k sqlite"

former = in_file("functory/intake/former_tenants.py", AGAIN)
outbox = in_file("functory/execution/outbox.py", AGAIN)
tenants = in_file("functory/operations/tenants.py", AGAIN)
in_mongo = in_file("store/mongo/records/tenants.py", "tests/contract/store/test_names_again.py -k mongodb")
tenant_book = in_file("functory/execution/tenant_book.py", "tests/unit/functory/test_tenant_book.py")
admission = in_file("functory/intake/admission.py", "tests/service/test_tenant_limits.py")
keyring = in_file("functory/operations/keyring.py", UNHEARD)
BY_OPERATOR = "tests/service/test_names_unheard.py -k operator_adds"
by_path = in_file("functory/web/api/legacy.py", BY_OPERATOR)
by_page = in_file("functory/web/pages/endpoint.py", BY_OPERATOR)
claims_under_way = in_file("functory/execution/claims_under_way.py", UNHEARD)
claims_of_workers = in_file("functory/workers/claims.py", UNHEARD)
leaders = in_file("functory/consumers/leaders.py", UNHEARD)
in_mongo_claim = in_file("store/mongo/queue/claim.py", "tests/contract/store/test_claim.py -k mongodb")
in_sqlite_claim = in_file("store/sqlite/queue/bulk_claim.py", "tests/contract/store/test_claim.py -k sqlite")
batches = in_file("functory/execution/batches.py", UNHEARD)
slots = in_file("functory/execution/slots.py", UNHEARD)
runner = in_file("runner/runner.py", UNHEARD)
hearing = in_file("functory/daemon/hearing.py", UNHEARD)
handler_cache = in_file("functory/execution/handler_cache.py", "tests/unit/functory/test_handler_cache.py")

MUTANTS: list[Mutant] = [
    former("a new tenant gets lines of the old one", "time_ms < since.get(", "time_ms < 0 * since.get("),
    outbox("a new tenant gets what a job of the old one asked for", "() if job.id in gone else wishes", "wishes"),
    tenants("a new tenant gets what was left under its name", "if (await _delete(", "if False and (await _delete("),
    tenants("a name that is taken loses what it has", "only_leftovers=only_leftovers,", "only_leftovers=False,"),
    tenants(
        "a deletion goes on with the next tenant of the name", "service, name, only_deleting=True)", "service, name)"
    ),
    in_mongo("who removes late takes from the next tenant", "tenants.find_one(held, {", "tenants.find_one({"),
    in_mongo(
        "leftovers are removed of a tenant that was just made",
        "if (only_leftovers and not found",
        "if (False and not found",
    ),
    tenant_book("an old answer counts", "if number > self._answered:", "if True:"),
    tenant_book(
        "nobody hears that a tenant is gone", "                    listener(name)\n", "                    pass\n"
    ),
    tenant_book(
        "a tenant runs the code of one that had its name",
        "if now is None or now.incarnation != one.incarnation:",
        "if not one.is_closed and (now is None or now.incarnation != one.incarnation):",
        tests="tests/service/test_handlers_in_force.py",
    ),
    admission(
        "what is in the journal does not count", "self.jobs = usage.jobs + unstored.lines", "self.jobs = usage.jobs"
    ),
    admission("bytes in the journal do not count", "usage.size_bytes + unstored.size_bytes", "usage.size_bytes"),
    admission(
        "each request has a quota of its own",
        "await self._looks.ask((tenant, self._forgotten), lambda: self._look(tenant), known=seen)",
        "await self._look(tenant)",
        tests="tests/web/test_admission.py -k at_once",
    ),
    handler_cache("large handlers take all memory", " or self._bytes > _MOST_BYTES", ""),
    handler_cache("what was dropped counts for ever", "if known is None else known.size_bytes", "if known else 0"),
    handler_cache(
        "a new tenant gets the code of one that is gone",
        "(known.incarnation, known.version) == (incarnation, version)",
        "known.version == version",
    ),
    keyring(
        "a job of a new tenant goes straight into the old one's code",
        "await service.control.meet_tenant(name, tenant.created_ms)",
        "pass",
    ),
    by_path(
        "what the operator adds for a new tenant goes straight into the old one's code",
        "        await call.service.control.meet_tenant(tenant.name, tenant.created_ms)  # before it gets a job\n",
        "",
    ),
    by_page(
        "what an operator's page adds for a new tenant goes straight into the old one's code",
        "    await call.service.control.meet_tenant(tenant.name, tenant.created_ms)  # before it gets a job\n",
        "",
    ),
    in_file("functory/operations/replay_runs.py", "tests/web/test_pages_replay.py")(
        "the replays of a tenant are shown to the next of its name", " or run.began_ms < since", ""
    ),
    in_file("functory/web/http/endpoint.py", "tests/web/test_outlived.py -k body")(
        "who sends slowly acts for the next tenant of the name",
        "        if changes != self._changes:\n",
        "        if False:\n",
    ),
    in_file("functory/web/pages/endpoint.py", "tests/web/test_outlived.py -k form")(
        "a form that comes slowly acts for the next tenant of the name",
        "                await admit(call, self._route)\n            try:\n",
        "                pass\n            try:\n",
    ),
    in_file("functory/operations/handlers.py", "tests/web/test_outlived.py -k handler_that")(
        "a handler that takes long becomes one of the next tenant of the name",
        "    await require_same_tenant(service, who)\n    if who.limits",
        "    if who.limits",
    ),
    in_file("functory/operations/handlers.py", "tests/web/test_outlived.py -k try_of")(
        "a try that takes long has the secrets of the next tenant of the name",
        "    if is_new or handler.lock is not None:  # that may",
        "    if False:  # that may",
    ),
    in_file("functory/execution/trial_runs.py", "tests/service/test_tenants_contexts.py -k waits_for_a_seat")(
        "a try that waits has the secrets of the next tenant of the name",
        "                if self._admitted(jobtype).incarnation != allowance.incarnation:\n",
        "                if False:\n",
    ),
    claims_under_way(
        "a claim for one tenant takes a job of the next",
        "tenant_created_ms=tenant_created_ms,",
        "tenant_created_ms=None,",
    ),
    claims_of_workers(
        "a worker gets a job of the next tenant", "tenant_created_ms=incarnation,", "tenant_created_ms=None,"
    ),
    leaders("a consumer is fed by the code of another tenant", "await self._refresh_tenants()", "pass"),
    in_mongo_claim(
        "a claim for one tenant takes of another", "created_ms not in {None, self._tenant_created_ms}", "False"
    ),
    in_sqlite_claim(
        "a claim for one tenant takes of another", "ifnull(?2, ifnull(o.created, 0))", "ifnull(o.created, ?2)"
    ),
    batches("a job of a tenant that is gone runs", " if allowance.incarnation == incarnation else ()", ""),
    slots("the next tenant's jobs end with the old one", " and batch.incarnation != spared", ""),
    runner("the next tenant's contexts end with the old one's", " and key.incarnation != spared", ""),
    claims_of_workers(
        "a worker of the old tenant takes for the next",
        "order.tenant_since_ms not in {0, self._tenants.incarnation_of(order.tenant)}",
        "False",
    ),
    hearing("keys of the old tenant live on", "        self._parts.tenants.when_gone(lambda _: listener())\n", ""),
]

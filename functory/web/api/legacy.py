"""Paths of the systems that came before, kept for their clients."""

from aiohttp import web

from functory.errors import Forbidden, InvalidInput, Missing
from functory.operations import daemons
from functory.operations.principal import OPERATOR
from functory.operations.submit import Submission, submit_lines
from functory.operations.tenants import get_tenant
from functory.web.api.add import add_lines, add_lines_once, add_once
from functory.web.api.idempotency_key import idempotency_key_of
from functory.web.api.submission import added_json, payload_of
from functory.web.http.answers import json_bytes
from functory.web.http.endpoint import Call, check_type_name
from functory.web.http.routes import Routes
from functory.wire.admin import AddByNameQuery
from functory.wire.base import Done
from functory.wire.jobs import Added, QueueBody, Queued
from vocabulary.names import jobtype_of

routes = Routes()


@routes.add("POST", "/jobber/queue", scope="submit", summary="Queue one job", status=201)
async def queue_job(call: Call, body: QueueBody) -> Queued:
    payload, key = payload_of(body.payload, None), idempotency_key_of(call.request.headers, None)
    if key is None:
        (job_id,) = await submit_lines(call.service, call.principal, body.type, [payload])
    else:
        job = Submission(payload)
        (job_id,) = await add_once(call.web, call.principal, body.type, [job], key, payload)
    return Queued(job_id)


@routes.add("POST", "/add", scope="any", summary="Add jobs by query", answer=Added, raw=("text/plain",))
async def add_jobs(call: Call, query: AddByNameQuery) -> web.Response:
    """Add jobs. `client` is the key's own tenant; the operator may name any. The jobtype may include
    its tenant or not."""
    who = call.principal
    if who.tenant == OPERATOR:
        who.require("operator")
        if query.client is None:
            raise InvalidInput(
                "client names the tenant, and is needed with an operator's key",
                detail={"in": "query", "field": "client"},
            )
        tenant = await get_tenant(call.service, query.client)
        if tenant.deleting:
            raise Missing(f"tenant {tenant.name} is being deleted")
        await call.service.control.meet_tenant(tenant.name, tenant.created_ms)  # before it gets a job
        who = who._replace(tenant=tenant.name, tenant_since_ms=tenant.created_ms)
    else:
        who.require("submit")
        if query.client not in {None, who.tenant}:
            raise Forbidden("client is not the tenant of the key", detail={"tenant": who.tenant})
    type_name = check_type_name(query.jobtype.removeprefix(jobtype_of(who.tenant, "")), "query", "jobtype")
    body, key = await call.read_body(), idempotency_key_of(call.request.headers, None)
    if key is None:
        return json_bytes(added_json(await add_lines(call.web, who, type_name, body)))
    return json_bytes(added_json(await add_lines_once(call, who, type_name, body, key)))


@routes.add("POST", "/start", scope="operator", summary="Start jobs on this daemon again")
async def start(call: Call) -> Done:
    await daemons.pause_daemon(call.service, call.principal.key_id, call.service.control.sysid, paused=False)
    return Done()


@routes.add("POST", "/stop", scope="operator", summary="Start no more jobs on this daemon")
async def stop(call: Call) -> Done:
    await daemons.pause_daemon(call.service, call.principal.key_id, call.service.control.sysid, paused=True)
    return Done()


@routes.add("POST", "/quit", scope="operator", summary="End this daemon gracefully", status=202)
async def quit_daemon(call: Call) -> Done:
    await daemons.quit_daemon(call.service, call.principal.key_id)
    return Done()

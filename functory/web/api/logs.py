"""Route of a job's log: as it is, or followed while it is printed."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from functory.operations.job_log import follow_log, get_log
from functory.web.http.answers import answer
from functory.web.http.endpoint import Call, bearer
from functory.web.http.routes import Routes
from functory.wire.jobs import LogQuery, LogText

routes = Routes()


@routes.add(
    "GET",
    "/{tenant}/job/{id}/log",
    scope="read",
    summary="The log of a job; follow it to its end",
    answer=LogText,
)
async def get_job_log(call: Call, query: LogQuery) -> web.StreamResponse:
    """Text, or server-sent events: `log` with a JSON string for what was printed, at last `end` with the outcome, or
    `error`."""
    if query.follow:
        key, life_s = bearer(call.request.headers.get("Authorization")), call.web.settings.follow_s
        return await call.web.streams.send(
            call.request,
            call.principal,
            _events(call),
            lambda: call.web.keys.admit(key),
            life_s,
            lambda error: call.web.edge.refuse(call.request, error),
        )
    text = answer(await get_log(call.service, call.tenant, call.param("id")), "text/plain; charset=utf-8")
    text.headers["Content-Disposition"] = "attachment"
    return text


async def _events(call: Call) -> AsyncGenerator[bytes, None]:
    async with aclosing(follow_log(call.service, call.tenant, call.param("id"))) as parts:
        async for part in parts:
            event = b""
            if part.text:
                event += f"event: log\ndata: {json.dumps(part.text.decode('utf-8', 'replace'))}\n\n".encode()
            if part.ended is not None and part.ended.outcome is not None:
                outcome = {"code": part.ended.outcome.code.value, "exitcode": part.ended.outcome.exitcode}
                event += f"event: end\ndata: {json.dumps(outcome)}\n\n".encode()
            yield event

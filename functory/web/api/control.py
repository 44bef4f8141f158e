"""Routes by which a tenant controls its own queue: pause of a type, rate domains."""

from typing import Final

import msgspec
from aiohttp import web

from functory.loops.slices import Slices
from functory.operations import type_controls
from functory.web.http.answers import json_bytes
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.wire.admin import DomainRate, RateBody, RateList, RateRow
from functory.wire.base import Done

routes = Routes()

_ROW: Final = 40
"""What a row costs, as slices count it."""


@routes.add("POST", "/{tenant}/type/{type}/pause", scope="manage", summary="Start no more jobs of a type")
async def pause_type(call: Call) -> Done:
    await type_controls.pause_type(call.service, call.principal, call.tenant, call.type_name, paused=True)
    return Done()


@routes.add("POST", "/{tenant}/type/{type}/resume", scope="manage", summary="Start jobs of a type again")
async def resume_type(call: Call) -> Done:
    await type_controls.pause_type(call.service, call.principal, call.tenant, call.type_name, paused=False)
    return Done()


@routes.add("GET", "/{tenant}/rate", scope="read", summary="The rate domains", answer=RateList)
async def list_rates(call: Call) -> web.Response:
    """Made as the scoreboard is: there may be thousands."""
    return json_bytes(await call.web.looks.ask(call.tenant, "rates", lambda: _rates(call)))


async def _rates(call: Call) -> bytes:
    rows, slices = list[RateRow](), Slices()
    for it in await type_controls.list_rates(call.service, call.tenant):
        rows.append(RateRow(*it.domain[1:], it.tokens, it.next_ms, it.domain.is_pattern))
        await slices.spend(_ROW)
    return msgspec.json.encode(RateList(rows))


@routes.add("GET", "/{tenant}/rate/{domain}", scope="read", summary="The limit that holds for a rate domain")
async def get_rate(call: Call) -> DomainRate:
    domain = call.param("domain")
    found = await type_controls.get_rate(call.service, call.tenant, domain)
    return DomainRate(domain, *found.domain[1:], found.tokens, found.next_ms)


@routes.add("PUT", "/{tenant}/rate/{domain}", scope="manage", summary="Limit the rate of a domain, or of a pattern")
async def set_rate(call: Call, body: RateBody) -> Done:
    actor, domain = call.principal.key_id, call.param("domain")
    await type_controls.set_rate(call.service, actor, call.tenant, domain, rate_per_s=body.rate_per_s, burst=body.burst)
    return Done()


@routes.add("DELETE", "/{tenant}/rate/{domain}", scope="manage", summary="Lift the limit of a domain")
async def delete_rate(call: Call) -> Done:
    await type_controls.delete_rate(call.service, call.principal.key_id, call.tenant, call.param("domain"))
    return Done()

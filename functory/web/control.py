"""Routes by which a tenant steers its own queue: pause of a type, rate domains."""

from functory.operations import pauses
from functory.web.endpoint import Call
from functory.web.routes import Routes
from functory.wire.admin import RateBody, RateList, RateRow
from functory.wire.base import Done
from store.base import RateDomain
from store.errors import NotFound

routes = Routes()


@routes.add("POST", "/{tenant}/type/{type}/pause", scope="manage", summary="Start no more jobs of a type")
async def pause_type(call: Call) -> Done:
    await pauses.pause_type(call.service, call.principal.key_id, call.tenant, call.type_name, paused=True)
    return Done()


@routes.add("POST", "/{tenant}/type/{type}/resume", scope="manage", summary="Start jobs of a type again")
async def resume_type(call: Call) -> Done:
    await pauses.pause_type(call.service, call.principal.key_id, call.tenant, call.type_name, paused=False)
    return Done()


@routes.add("GET", "/{tenant}/rate", scope="read", summary="The rate domains")
async def list_rates(call: Call) -> RateList:
    rates = await call.service.store.list_rate_domains(call.tenant, now_ms=call.service.now_ms())
    return RateList(
        [RateRow(it.domain.domain, it.domain.rate_per_s, it.domain.burst, it.tokens, it.next_ms) for it in rates]
    )


@routes.add("PUT", "/{tenant}/rate/{domain}", scope="manage", summary="Limit the rate of a domain")
async def set_rate(call: Call, body: RateBody) -> Done:
    domain = RateDomain(call.tenant, call.param("domain"), body.rate_per_s, body.burst)
    await call.service.store.set_rate_domain(domain, now_ms=call.service.now_ms())
    call.service.control.wake()
    return Done()


@routes.add("DELETE", "/{tenant}/rate/{domain}", scope="manage", summary="Lift the limit of a domain")
async def delete_rate(call: Call) -> Done:
    if not await call.service.store.delete_rate_domain(call.tenant, call.param("domain")):
        raise NotFound("there is no limit on that rate domain")
    call.service.control.wake()
    return Done()

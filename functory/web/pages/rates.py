"""The rate domains of a tenant: which limits there are, what is left of each, which one holds for a domain, and forms
to set and delete them."""

from typing import Final

from functory.errors import InvalidInput
from functory.operations import type_controls
from functory.web.pages.call import PageCall, whole_number
from functory.web.pages.declaration import Go, Page, Pages
from store.base import RateState
from store.errors import InvalidValue, NotFound
from vocabulary.rate_text import parse_rate, rate_text

pages = Pages()

_PAGE_LIMITS: Final = 100
_MOST_CHARS: Final = 255
"""Of a domain, as the store takes it."""


@pages.get("/ui/t/{tenant}/rates", scope="read")
async def list_rates(call: PageCall) -> Page:
    found = await type_controls.list_rates(call.service, call.tenant)
    start = call.start(len(found), _PAGE_LIMITS)
    asked = call.query("domain").strip()[:_MOST_CHARS]
    values = {
        "limits": found[start : start + _PAGE_LIMITS],
        "count": len(found),
        "start": start,
        "page_limits": _PAGE_LIMITS,
        "asked": asked,
        "holds": await _find(call, asked) if asked else None,
        "rate_text": rate_text,
        "typed": {name: call.form.get(name, "")[:_MOST_CHARS] for name in ("name", "rate_per_s", "burst")},
        "now_ms": call.now_ms,
    }
    return Page("rates.html", values)


async def _find(call: PageCall, domain: str) -> RateState | None:
    try:
        return await type_controls.get_rate(call.service, call.tenant, domain)
    except NotFound:
        return None
    except InvalidValue as error:
        call.refusal = str(error)
        return None


@pages.post("/ui/t/{tenant}/rates", scope="manage", form=list_rates)
async def set_rate(call: PageCall) -> Go:
    rate_per_s, burst = _rate(call.form.get("rate_per_s", "")), whole_number(call.form.get("burst", "1").strip() or "1")
    if burst is None:
        raise InvalidInput("the burst is not a whole number")
    domain = call.form.get("name", "").strip()
    await type_controls.set_rate(call.service, call.who.key_id, call.tenant, domain, rate_per_s=rate_per_s, burst=burst)
    return Go(f"{call.home}/rates", "rate_set")


@pages.post("/ui/t/{tenant}/rates/delete", scope="manage", form=list_rates)
async def delete_rate(call: PageCall) -> Go:
    await type_controls.delete_rate(call.service, call.who.key_id, call.tenant, call.form.get("name", ""))
    return Go(f"{call.home}/rates", "rate_deleted")


def _rate(text: str) -> float:
    try:
        return parse_rate(text[:_MOST_CHARS])
    except ValueError as error:
        raise InvalidInput(str(error)) from None

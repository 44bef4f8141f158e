"""One tenant, for the operator: its weight, limits and suspension, and its keys."""

from typing import Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import web

from functory.errors import InvalidInput
from functory.operations import keys, tenants
from functory.operations.figures import usage_of
from functory.statuses import status_of
from functory.tenant_limits import limits_from
from functory.web.http.validation_words import refusal
from functory.web.pages.call import PageCall, whole_number
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.endpoint import render_page
from functory.web.pages.operator import list_tenants
from functory.wire.admin import LimitsBody, NewTenant
from functory.wire.scopes import TENANT_SCOPES
from store.base import Tenant
from store.errors import Conflict

pages = Pages()

LIMITS: Final = {
    "max_jobs": "Jobs stored",
    "max_bytes": "Bytes stored",
    "max_handlers": "Handlers",
    "max_types": "Types with jobs",
    "max_running": "Concurrent batches",
    "max_running_per_type": "Concurrent batches per type",
    "requests_per_s": "Requests per second, per key",
    "requests_burst": "Request burst, per key",
    "max_package_bytes": "Bytes of packages, on each daemon",
}
"""Numbers: an empty field is the default. Network and hosts have choices: no hosts is a limit too."""
NETWORK: Final = {"default": "Default", "yes": "Allowed", "no": "Not allowed"}
HOSTS: Final = {"default": "Default", "none": "None", "these": "Only these"}
_NETWORK_LIMITS: Final = {"default": None, "yes": True, "no": False}


@pages.post("/ui/operator/tenants", scope="operator")
async def create_tenant(call: PageCall) -> Go | Page:
    """A name that is taken or not allowed is told above the list, with the form as it was."""
    name = call.form.get("name", "").strip()
    try:
        new = _convert({"name": name}, NewTenant)
        await tenants.create_tenant(call.service, call.who.key_id, new.name, new.weight, new.limits)
    except (Conflict, InvalidInput) as error:
        text = str(error)
        problem = f"{text[:1].upper()}{text[1:]}." if isinstance(error, Conflict) else text
        page = await list_tenants(call)
        return page._replace(values={**page.values, "problem": problem, "name": name[:32]}, status=status_of(error))
    return Go(f"/ui/operator/tenants/{new.name}", "tenant_created")


@pages.get("/ui/operator/tenants", scope="operator", is_page=False)
async def go_to_list(_: PageCall) -> Go:
    return Go("/ui/operator")


@pages.get("/ui/operator/tenants/{name}/keys", scope="operator", is_page=False)
async def go_to_tenant(call: PageCall) -> Go:
    return Go(f"/ui/operator/tenants/{quote(call.params['name'], safe='')}")


@pages.get("/ui/operator/tenants/{name}", scope="operator")
async def show_tenant(call: PageCall) -> Page:
    return await _page(call)


@pages.post("/ui/operator/tenants/{name}", scope="operator", form=show_tenant)
async def change_tenant(call: PageCall) -> Go:
    given: dict[str, Any] = {name: call.form[name] for name in LIMITS if call.form.get(name, "").strip()}
    network = call.form.get("network", "default")
    if network not in NETWORK:
        raise InvalidInput("network is default, yes or no")
    limits = _convert({**given, "network": _NETWORK_LIMITS[network], "hosts": _hosts(call.form)}, LimitsBody)
    weight = whole_number(call.form.get("weight", ""))
    if weight is None or not 1 <= weight <= 1000:
        raise InvalidInput("the weight is a whole number from 1 to 1,000")
    return await _update(call, "changed", weight=weight, limits=limits)


@pages.post("/ui/operator/tenants/{name}/pause", scope="operator")
async def suspend(call: PageCall) -> Go:
    return await _update(call, "paused", suspended=True)


@pages.post("/ui/operator/tenants/{name}/resume", scope="operator")
async def resume(call: PageCall) -> Go:
    return await _update(call, "resumed", suspended=False)


@pages.post("/ui/operator/tenants/{name}/keys", scope="operator", form=show_tenant)
async def create_key(call: PageCall) -> web.StreamResponse:
    """Renders the page itself instead of redirecting: the secret is in this one answer and is never shown again. The
    form brings the id of its key, so whoever loads the answer again does not create another one."""
    name = (await tenants.get_tenant(call.service, call.params["name"])).name
    scopes = [scope for scope in TENANT_SCOPES if call.form.get(scope) == "yes"]
    if not scopes:
        raise InvalidInput("choose at least one scope")
    label = call.form.get("label", "").strip()
    if len(label) > 100:
        raise InvalidInput("the label has at most 100 characters")
    key_id = call.form.get("key_id")
    try:
        _, text = await keys.create_key(call.service, call.who.key_id, name, scopes=scopes, label=label, key_id=key_id)
    except Conflict:
        raise Conflict(f"key {key_id} was created by this form before: its text is shown only once") from None
    return await render_page(call, await _page(call, new_key=text))


@pages.post("/ui/operator/tenants/{name}/keys/{key_id}/revoke", scope="operator")
async def revoke_key(call: PageCall) -> Go:
    name = call.params["name"]
    await keys.revoke_key(call.service, call.who.key_id, name, call.params["key_id"])
    return Go(f"/ui/operator/tenants/{name}", "key_revoked")


def _hosts(form: dict[str, str]) -> str | None:
    """The limit `hosts`: None for the default, empty for none. A list that the choice would drop is refused."""
    choice, hosts = form.get("hosts_choice", "default"), form.get("hosts", "").strip()
    if choice not in HOSTS:
        raise InvalidInput("hosts_choice is default, none or these")
    if (choice == "these") != bool(hosts):
        raise InvalidInput(f"give hosts if you choose {HOSTS['these']!r}, and leave the field empty otherwise")
    return None if choice == "default" else hosts


async def _page(call: PageCall, new_key: str = "") -> Page:
    tenant = await tenants.get_tenant(call.service, call.params["name"])
    typed = call.form if call.refusal else {}
    values = {
        "it": tenant,
        "names": LIMITS,
        "fields": {**_stored_fields(tenant), **typed},
        "networks": NETWORK,
        "hosts_choices": HOSTS,
        "label": typed.get("label", ""),
        "chosen": [it for it in TENANT_SCOPES if "label" not in typed or typed.get(it) == "yes"],
        "keys": await keys.list_keys(call.service, tenant.name),
        "scopes": TENANT_SCOPES,
        "new_key": new_key,
        "key_id": keys.new_key_id(),
        "usage": await usage_of(call.service, tenant.name),
    }
    return Page("tenant.html", values)


def _stored_fields(tenant: Tenant) -> dict[str, object]:
    """The form of weight and limits as it is stored."""
    limits = limits_from(tenant.limits)
    numbers = {name: getattr(limits, name) for name in LIMITS}
    return {
        "weight": tenant.weight,
        **{name: "" if value is None else value for name, value in numbers.items()},
        "network": next(name for name, value in _NETWORK_LIMITS.items() if value is limits.network),
        "hosts": limits.hosts or "",
        "hosts_choice": "default" if limits.hosts is None else "these" if limits.hosts.strip() else "none",
    }


async def _update(call: PageCall, note: str, **changes: Any) -> Go:
    name = call.params["name"]
    await tenants.get_tenant(call.service, name)
    await tenants.update_tenant(call.service, call.who.key_id, name, **changes)
    return Go("/ui/operator" if call.form.get("back") == "list" else f"/ui/operator/tenants/{name}", note)


def _convert(given: dict[str, Any], kind: Any) -> Any:
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        refused = refusal(error, kind, "form")
        field = str(refused.detail.get("field", ""))
        words = LIMITS.get(field, field) + str(refused).removeprefix(field)  # as the form calls it
        raise InvalidInput(words, detail=refused.detail) from None

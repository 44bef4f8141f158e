"""The operator's page of a tenant: what is saved is what the form showed, and what was changed in it."""

import re
from html import unescape
from typing import Any

import pytest

from tests.support.pages import Visitor, visitor
from tests.support.web import Site

PAGE = "/ui/operator/tenants/acme"
FORM = re.compile(rf'<form method="post" action="{PAGE}">(.*?)</form>', re.DOTALL)
INPUT = re.compile(r'<input id="\w+" name="(\w+)"[^>]*? value="([^"]*)"')
SELECT = re.compile(r'<select id="\w+" name="(\w+)">(.*?)</select>')
CHOSEN = re.compile(r'<option value="(\w+)" selected>')


async def form_of(operator: Visitor) -> dict[str, str]:
    """The fields as a browser would send them."""
    found = FORM.search((await operator.get(PAGE)).text)
    assert found
    fields = {name: unescape(value) for name, value in INPUT.findall(found[1])}
    return fields | {name: CHOSEN.findall(options)[0] for name, options in SELECT.findall(found[1])}


async def limits_of(site: Site) -> dict[str, Any]:
    answer = await site.get("/admin/tenants/acme", key="operator")
    return {name: value for name, value in answer.json["limits"].items() if value is not None}


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"hosts": ""},
        {"hosts": "*.example.org, api.example.com:8443"},
        {"network": False},
        {"network": True, "hosts": "", "max_jobs": 0, "requests_per_s": 2.5},
    ],
)
async def test_saving_another_weight_leaves_the_limits(site: Site, limits: dict[str, Any]) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
    async with visitor(site, "operator") as operator:
        form = await form_of(operator)
        assert (await operator.post(PAGE, {**form, "weight": "2"})).status == 303
        assert (await form_of(operator))["weight"] == "2"
    assert await limits_of(site) == limits


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hosts_choice": "none", "hosts": ""}, {"hosts": ""}),
        ({"hosts_choice": "these", "hosts": " a.example "}, {"hosts": "a.example"}),
        ({"hosts_choice": "default", "hosts": ""}, {}),
        ({"hosts_choice": "default"}, None),
        ({"hosts_choice": "none"}, None),
        ({"hosts_choice": "these", "hosts": " "}, None),
        ({"hosts_choice": "all"}, None),
        ({"network": "maybe"}, None),
        ({"network": "no"}, {"hosts": "b.example", "network": False}),
    ],
)
async def test_a_choice_is_saved_or_refused(
    site: Site, changes: dict[str, str], expected: dict[str, Any] | None
) -> None:
    """Refused: a list of hosts that the choice would drop, and a choice of hosts without any."""
    before = {"hosts": "b.example"}
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": before})
    async with visitor(site, "operator") as operator:
        answer = await operator.post(PAGE, {**await form_of(operator), **changes})
    assert answer.status == (422 if expected is None else 303)
    assert await limits_of(site) == (before if expected is None else expected)


async def test_who_pauses_a_tenant_is_asked_first_and_who_resumes_it_is_not(site: Site) -> None:
    async with visitor(site, "operator") as operator:
        assert f'action="{PAGE}/pause" data-confirm="Pause this tenant?' in (await operator.get(PAGE)).text
        await operator.post(f"{PAGE}/pause")
        assert f'action="{PAGE}/resume">' in (await operator.get(PAGE)).text


async def test_a_form_that_is_sent_twice_creates_one_key(site: Site) -> None:
    async with visitor(site, "operator") as operator:
        (key_id,) = re.findall(r'name="key_id" value="(\w+)"', (await operator.get(PAGE)).text)
        form = {"key_id": key_id, "read": "yes", "label": "shop"}
        made = await operator.post(f"{PAGE}/keys", form)
        (text,) = re.findall(r'id="new-key">([^<]+)<', made.text)
        assert (made.status, text.startswith(f"fk_{key_id}_")) == (200, True)
        again = await operator.post(f"{PAGE}/keys", form)
        assert (again.status, 'id="new-key"' in again.text) == (409, False)
        assert "was created by this form before" in again.text
        assert (await operator.post(f"{PAGE}/keys", {**form, "key_id": "../x"})).status == 422
    listed = (await site.get("/admin/tenants/acme/keys", key="operator")).json["keys"]
    assert [it["label"] for it in listed].count("shop") == 1
    async with visitor(site) as stranger:
        assert (await stranger.sign_in(text)).status == 303

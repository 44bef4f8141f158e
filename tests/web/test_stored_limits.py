"""Limits that another version stored, or somebody by hand: the tenant goes on, and the operator can see and change
them."""

import pytest

from tests.support.pages import visitor
from tests.support.terminal import Terminal
from tests.support.web import Site

UNREADABLE = "max_running=1 network=false hosts="


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ('{"max_jobs":100000,"max_new":1}', "max_jobs=100000"),
        ('{"max_jobs":100000,"max_new":{"deep":[null]}}', "max_jobs=100000"),
        ('{"requests_burst":2000000}', "requests_burst=2000000"),
        ('{"max_jobs":"many"}', UNREADABLE),
        ('{"hosts":"no host!"}', UNREADABLE),
        ("{", UNREADABLE),
    ],
    ids=["a field too many", "an object too many", "beyond the bound", "another type", "a wrong host", "no JSON"],
)
async def test_stored_limits_keep_nobody_out(site: Site, terminal: Terminal, stored: str, shown: str) -> None:
    await site.store.update_tenant("acme", limits=stored)
    site.clock.advance(60)  # the keyring looks again
    assert (await site.get("/acme/scoreboard")).status == 200
    await terminal.run("job", "add", "thumb", "x")
    assert shown in await terminal.run("tenant", "list", who="operator")
    assert f"limits   {shown}\n" in await terminal.run("tenant", "show", "acme", who="operator")
    async with visitor(site, "operator") as operator:
        for page in ("/ui/operator", "/ui/operator/tenants/acme", "/ui/t/acme"):
            assert (await operator.get(page)).status == 200
    changed = await terminal.run("tenant", "change", "acme", "--no-limits", "--limit", "max_jobs=7", who="operator")
    assert "limits   max_jobs=7\n" in changed


async def test_limits_that_are_given_are_strict(site: Site) -> None:
    for limits in ({"max_new": 1}, {"requests_burst": 2_000_000}):
        answer = await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
        assert answer.status == 422

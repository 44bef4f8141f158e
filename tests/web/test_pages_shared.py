"""What is made once for several readers of a page: nothing of one reader is in it, nor of an earlier tenant."""

from functory.operations.keys import create_key
from functory.operations.tenants import create_tenant, delete_tenant
from functory.tenant_limits import TenantLimits
from tests.support.pages import next_part, visitor
from tests.support.web import Site


async def test_a_live_part_has_the_readers_own_host_and_rights(site: Site) -> None:
    _, site.keys["reader"] = await create_key(site.service, "test", "acme", scopes=["read"])
    live = f"{site.url}/ui/t/acme/~live"
    async with (
        visitor(site, "acme") as acme,
        visitor(site, "reader") as reader,
        acme.session.get(live, headers={"Host": "203.0.113.66"}) as elsewhere,
        acme.session.get(live) as here,
        reader.session.get(live) as limited,
    ):
        assert "http://203.0.113.66/acme/job/hello/add" in await next_part(elsewhere)
        text = await next_part(here)
        assert f"{site.url}/acme/job/hello/add" in text
        assert "203.0.113.66" not in text, "the key would be sent there"
        assert ("/ui/t/acme/new" in text, "/ui/t/acme/new" in await next_part(limited)) == (True, False)


async def test_a_tenant_sees_nothing_of_an_earlier_one_of_its_name(site: Site) -> None:
    await site.add("x")
    site.clock.advance(1)
    await site.run()
    site.clock.advance(600)  # the minute is over, so it is kept and not read again
    async with visitor(site, "acme") as old, visitor(site, "operator") as operator:
        for visit in (old, operator):
            for path in ("/ui/t/acme?sort=ok", "/ui/t/acme/type/thumb"):
                assert "1 ok" in (await visit.get(path)).text
        while (await delete_tenant(site.service, "test", "acme")).more:
            pass
        await create_tenant(site.service, "test", "acme", 1, TenantLimits())
        _, site.keys["new"] = await create_key(site.service, "test", "acme")
        await site.add("y", key="new")
        await site.intake.flush()
        async with visitor(site, "new") as new:
            for visit in (new, operator):
                for path in ("/ui/t/acme?sort=ok", "/ui/t/acme/type/thumb"):
                    page = await visit.get(path)
                    assert (page.status, "1 ok" in page.text) == (200, False), path

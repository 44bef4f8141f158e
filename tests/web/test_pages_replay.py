"""The page of a replay says how its own jobs ended, whatever else failed meanwhile."""

import re

from functory.operations.keys import create_key
from functory.operations.tenants import create_tenant, delete_tenant
from functory.tenant_limits import TenantLimits
from store.base import Code
from tests.support.pages import Visitor, visitor
from tests.support.web import Site

TILE = re.compile(r"<dt>Failed again</dt><dd>(.*?)</dd>")
FORM = {"type": "thumb", "failed": "yes", "age": "1d", "limit": "10", "rate_per_s": ""}


async def begin(site: Site, acme: Visitor, *payloads: str) -> tuple[str, list[str]]:
    """Jobs that failed and are replayed: the page of the replay, and their ids."""
    await site.add(*payloads)
    ids = await site.run(code=Code.FAILED)
    return (await acme.post("/ui/t/acme/replay", FORM)).location, ids


async def test_a_job_that_failed_again_is_shown_after_many_other_failures(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        page, (job_id,) = await begin(site, acme, "x")
        site.clock.advance(1)
        await site.run(code=Code.FAILED)
        site.clock.advance(1)
        await site.add(*(f"other {number}" for number in range(501)))
        assert len(await site.run(501, Code.FAILED)) == 501
        text = (await acme.get(page)).text
        assert ("1 of 1 finished" in text, "None failed" in text) == (True, False)
        assert TILE.findall(text) == ["1"]
        assert f"/ui/t/acme/job/{job_id}" in text


async def test_the_last_job_becomes_due_and_then_became(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        await site.add("x", "y")
        await site.run(code=Code.FAILED)
        page = (await acme.post("/ui/t/acme/replay", {**FORM, "rate_per_s": "0.1"})).location
        assert re.search(r"the last one becomes due <time[^>]*>in 10", (await acme.get(page)).text)
        site.clock.advance(14)
        assert re.search(r"the last one became due <time[^>]*>4 s ago", (await acme.get(page)).text)


async def test_all_that_failed_again_are_counted_and_some_are_shown(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        page, _ = await begin(site, acme, *"abcdefghij")
        await site.run(4)
        await site.run(code=Code.ABANDONED)
        assert TILE.findall((await acme.get(page)).text) == ["6"]


async def test_of_a_job_that_is_gone_the_page_does_not_say_that_it_went_well(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        page, ids = await begin(site, acme, "x", "y")
        await site.run()
        assert "None failed" in (await acme.get(page)).text
        await site.store.delete_jobs("acme", ids[:1], now_ms=site.clock.now_ms())
        text = (await acme.get(page)).text
        assert ("2 of 2 finished" in text, "None failed" in text) == (True, False)
        assert "1 job is no longer stored" in text


async def test_the_replays_of_a_tenant_are_not_shown_to_the_next_of_its_name(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        page, _ = await begin(site, acme, "x")
    site.clock.advance(1)
    assert not (await delete_tenant(site.service, "test", "acme")).more
    await create_tenant(site.service, "test", "acme", 1, TenantLimits())
    _, key = await create_key(site.service, "test", "acme")
    for who in (key, site.keys["operator"]):
        async with visitor(site) as someone:
            await someone.sign_in(who)
            shown = await someone.get(page)
            assert (shown.status, "thumb" in shown.text) == (404, False)

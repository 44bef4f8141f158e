"""What a page says is so now: after a change on another daemon, and of what is outside its live part."""

import asyncio
import re
from pathlib import Path

from functory.operations.tenants import update_tenant
from functory.operations.type_controls import pause_type
from functory.web.http.settings import WebSettings
from functory.web.pages.recent import Recent
from store.base import Code, Outcome, Retry
from tests.support.pages import Visitor, next_part, visitor
from tests.support.web import T0, Site, open_site
from tests.support.workers import ACME

_STATE = re.compile(r'data-state="([^"]*)"')
_RELOAD = re.compile(r'data-reload-on="([^"]*)"')


async def states(visit: Visitor, path: str) -> tuple[str, str]:
    """Of the page, and of the live part in it."""
    page = (await visit.get(path)).text
    return _RELOAD.findall(page)[0], _STATE.findall(page)[0]


async def test_who_comes_from_a_form_sees_what_it_changed_on_another_daemon(site: Site) -> None:
    await site.add("x")
    async with visitor(site, "acme") as acme:
        path = "/ui/t/acme/type/thumb"
        assert "Resume" not in (await acme.get(path)).text
        await pause_type(site.service, ACME, "acme", "thumb", paused=True)  # as another daemon does
        assert "Resume" not in (await acme.get(f"{path}?note=nonsense")).text
        assert "Resume" in (await acme.get(f"{path}?note=paused")).text


async def test_an_address_does_not_make_the_store_work(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        recent = Recent(site.service)
        seen = []
        for _ in range(20):
            recent.renew(ACME)
            seen.append(await recent.snapshot(ACME))
        assert len({id(it) for it in seen}) == 6, "the first, and five that were renewed"
        site.clock.advance(1)
        first = await recent.snapshot(ACME)
        recent.renew(ACME)
        assert await recent.snapshot(ACME) is not first


async def test_a_page_is_of_another_state_when_something_outside_its_live_part_changed(site: Site) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat")
    await site.call("PUT", "/acme/consumer/verify", json={"source": "block"})
    daemon = await site.store.reserve_sysid(info="{}", lease_ms=9_000_000, now_ms=T0)
    async with visitor(site, "acme") as acme, visitor(site, "operator") as operator:
        kind, consumer, daemons = "/ui/t/acme/type/thumb", "/ui/t/acme/consumers/verify", "/ui/operator/daemons"

        async def look() -> list[str]:
            site.clock.advance(6)
            found = [await states(acme, kind), await states(acme, consumer), await states(operator, daemons)]
            assert all(one == other for one, other in found)
            return [one for one, _ in found]

        seen = [await look(), await look()]
        assert seen[0] == seen[1]
        await pause_type(site.service, ACME, "acme", "thumb", paused=True)
        await site.call("POST", "/acme/consumer/verify/stop")
        await operator.post(f"/ui/operator/daemons/{daemon.sysid}/pause")
        seen.append(await look())
        await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat -")
        await site.call("POST", "/acme/consumer/verify/start")
        await site.store.release_sysid(daemon.sysid)
        seen.append(await look())
        assert all(one != other for one, other in zip(seen[1], seen[2], strict=True))
        assert all(one != other for one, other in zip(seen[2], seen[3], strict=True))


async def test_a_live_part_ends_when_its_tenant_is_suspended_and_goes_on_as_another(tmp_path: Path) -> None:
    settings = WebSettings(port=0, shutdown_s=1.0, live_tick_s=0.01)
    async with open_site(tmp_path, settings=settings) as site, visitor(site, "acme") as acme:
        live = f"{site.url}/ui/t/acme/~live"
        async with acme.session.get(live) as stream:
            before = _STATE.findall(await next_part(stream))
            await update_tenant(site.service, "test", "acme", suspended=True)
            site.clock.advance(60)
            async with asyncio.timeout(30):
                while await stream.content.readline():
                    pass  # until the stream ends
        async with acme.session.get(live) as stream:
            assert _STATE.findall(await next_part(stream)) != before


async def test_a_filter_that_is_shown_is_applied(site: Site) -> None:
    await site.add("x")
    await site.intake.flush()
    async with visitor(site, "acme") as acme, visitor(site, "operator") as operator:
        page = (await acme.get("/ui/t/acme/jobs?state=waiting&code=failed")).text
        assert "<tr data-key=" in page
        assert '<option value="" selected>Any outcome' in page
        tiles = (await operator.get("/ui/operator?q=acm")).text
        assert "<dt>Tenants</dt><dd>2</dd>" in tiles, "beside figures of all tenants"


async def test_an_index_of_a_consumer_is_given_to_the_last_digit(site: Site) -> None:
    await site.call("PUT", "/acme/consumer/verify", json={"source": "block", "start_index": 12_345_678})
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme/consumers/verify")).text
    assert "It began at index 12,345,678." in page
    assert "<dd>12,345,677</dd>" in page


async def test_a_job_that_will_be_tried_again_names_no_last_attempt(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.intake.flush()
    for number in range(2):
        now_ms = T0 + number
        (job,) = await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=9000, now_ms=now_ms)
        retry = Retry(job.id, job.token, now_ms + 1, Outcome(Code.ERROR, 500, now_ms))
        await site.store.release_jobs("a7", [retry], now_ms=now_ms)
    async with visitor(site, "acme") as acme:
        page = (await acme.get(f"/ui/t/acme/job/{job_id}")).text
    assert re.findall(r"Attempt \d+[^<]*", page) == ["Attempt 2."]

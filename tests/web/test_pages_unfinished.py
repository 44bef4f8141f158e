"""Jobs that have not ended: counted on the board and on their type's page, and listed wherever they are."""

import re

from store.base import Code, Outcome, Retry
from tests.support.pages import Visitor, visitor
from tests.support.web import T0, Site

JOB_ROW = re.compile(r'<th scope="row" class="mono"><a href="/ui/t/acme/job/([^"]+)"')
NEXT = re.compile(r'<a rel="next" href="([^"]+)"')


async def shown(visit: Visitor, path: str) -> str:
    page = await visit.get(path)
    assert page.status == 200, page.text
    return page.text


async def retry_all(site: Site, count: int) -> None:
    """Every job of thumb has failed once, and will run again."""
    await site.intake.flush()
    jobs = await site.store.claim_jobs("acme-thumb", count, owner="a7", lease_ms=60_000, now_ms=T0)
    again = Outcome(Code.ERROR, 500, T0)
    await site.store.release_jobs("a7", [Retry(it.id, it.token, T0 + 60_000, again) for it in jobs], now_ms=T0)


async def test_a_type_whose_jobs_are_all_retried_leads_to_them(site: Site) -> None:
    ids = await site.add(*map(str, range(44)))
    await retry_all(site, 44)
    async with visitor(site, "acme") as acme:
        page = await shown(acme, "/ui/t/acme/type/thumb")
        assert '<dd><a href="/ui/t/acme/jobs?type=thumb&amp;state=deferred">44</a></dd>' in page
        assert "44 not ended yet" in page
        listed = await shown(acme, "/ui/t/acme/jobs?type=thumb&state=unfinished")
        assert sorted(JOB_ROW.findall(listed)) == sorted(ids)


async def test_jobs_that_have_not_ended_are_listed_page_by_page_through_all_states(site: Site) -> None:
    retried = await site.add(*map(str, range(70)))
    await retry_all(site, 70)
    waiting = await site.add(*map(str, range(50)), path="/acme/job/other/add")
    await site.intake.flush()
    (running,) = await site.store.claim_jobs("acme-other", 1, owner="a7", lease_ms=60_000, now_ms=T0)
    seen: list[str] = []
    async with visitor(site, "acme") as acme:
        path = "/ui/t/acme/jobs?state=unfinished"
        while path:
            page = await shown(acme, path)
            seen += JOB_ROW.findall(page)
            further = NEXT.search(page)
            path = further[1].replace("&amp;", "&") if further else ""
    assert seen[0] == running.id
    assert sorted(seen) == sorted([*retried, *waiting])


async def test_a_handler_that_cannot_be_read_is_said_where_its_jobs_wait(site: Site) -> None:
    await site.call("PUT", "/acme/handler/up?lang=python", data=b"x")
    async with visitor(site, "acme") as acme:
        assert "cannot be read" not in await shown(acme, "/ui/t/acme") + await shown(acme, "/ui/t/acme/type/up")
        site.control.unreadable_handlers["acme-up"] = "data: <b>odd</b>"
        page = await shown(acme, "/ui/t/acme")
        assert 'title="data: &lt;b&gt;odd&lt;/b&gt;">handler cannot be read</span>' in page
        page = await shown(acme, "/ui/t/acme/type/up")
        assert "The handler cannot be read, so jobs of this type wait.</b> <bdi>Data: &lt;b&gt;odd" in page


async def test_jobs_that_a_consumer_holds_are_on_the_board_and_on_the_page_of_their_type(site: Site) -> None:
    assert (await site.call("PUT", "/acme/consumer/verify", json={"source": "block"})).status == 200
    ids = await site.add("a", "b", "c", path="/acme/job/block/add")
    await site.intake.flush()
    async with visitor(site, "acme") as acme:
        board = await shown(acme, "/ui/t/acme?show=held")
        assert "<dt>Held</dt>" in board
        assert 'href="/ui/t/acme/jobs?state=paused&amp;type=block"' in board
        assert ">3 held</a>" in board
        assert '&amp;state=paused">3</a></dd>' in await shown(acme, "/ui/t/acme/type/block")
        listed = await shown(acme, "/ui/t/acme/jobs?state=paused")
        assert (listed.count(">held</span>"), listed.count(">paused</span>")) == (3, 0), "paused is what a type is"
        assert "Held by relatives or a consumer" in listed
        assert sorted(JOB_ROW.findall(listed)) == sorted(ids)
        assert "<b>Held by a consumer</b>" in await shown(acme, f"/ui/t/acme/job/{ids[0]}")


async def test_of_a_job_that_runs_the_start_is_shown_and_not_the_end_of_its_lease(site: Site) -> None:
    (job_id,) = await site.add("x")
    await retry_all(site, 1)
    site.clock.advance(60)
    now_ms = site.clock.now_ms()
    await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=30_000, now_ms=now_ms)
    site.clock.advance(25)
    async with visitor(site, "acme") as acme:
        listed = await shown(acme, "/ui/t/acme/jobs?state=running")
        assert re.search(r"started <time [^>]*data-ago>25 s ago</time>", listed)
        page = await shown(acme, f"/ui/t/acme/job/{job_id}")
        assert re.search(r"<b>Running on daemon a7</b>, started <time [^>]*data-ago>25 s ago</time>", page)


async def test_only_ended_jobs_can_be_chosen_by_outcome(site: Site) -> None:
    await site.add("x")
    async with visitor(site, "acme") as acme:
        for state, is_off in (("archived", False), ("waiting", True), ("unfinished", True)):
            page = await shown(acme, f"/ui/t/acme/jobs?state={state}&code=failed")
            assert ('<select id="code" name="code" disabled' in page) is is_off, state
            assert ('<option value="failed" selected>' in page) is not is_off, state

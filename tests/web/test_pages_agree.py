"""Pages agree with one another, and with what is there: counts, links, and whether a tenant is suspended."""

import asyncio
import re
from html import unescape
from pathlib import Path

from functory.web.http.settings import WebSettings
from store.base import Code
from tests.support.pages import next_part, visitor
from tests.support.web import Site, open_site

FAILED = re.compile(r'<td class="num(?: narrow)? bad">(\d+)</td>')


async def test_a_kind_of_error_is_told_also_when_its_example_is_gone(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.run(code=Code.FAILED, fingerprint="f 1&2", message="no <luck>")
    async with visitor(site, "acme") as acme:
        links = set()
        for path in ("", "/failures", "/type/thumb"):
            links |= set(re.findall(rf'href="([^"]*/job/{job_id}\?[^"]*)"', (await acme.get(f"/ui/t/acme{path}")).text))
        (link,) = map(unescape, links)
        assert (await acme.get(link)).status == 200
        await site.store.delete_jobs("acme", [job_id], now_ms=site.clock.now_ms())
        gone = await acme.get(link)
        assert (gone.status, "no longer stored" in gone.text, "no &lt;luck&gt;" in gone.text) == (404, True, True)
        for other in (link.replace(job_id, job_id[:-1] + "9"), link.partition("?")[0], link.replace("thumb", "a/b")):
            assert "no &lt;luck&gt;" not in (await acme.get(other)).text


async def test_who_looks_at_the_example_of_an_error_is_told_when_it_is_purged(tmp_path: Path) -> None:
    settings = WebSettings(port=0, shutdown_s=1.0, live_tick_s=0.01)
    async with open_site(tmp_path, settings=settings) as site, visitor(site, "acme") as acme:
        (job_id,) = await site.add("x")
        await site.run(code=Code.FAILED, fingerprint="f", message="no luck")
        address = f"{site.url}/ui/t/acme/job/{job_id}/~live?type=thumb&error=f"
        async with acme.session.get(address) as answer, asyncio.timeout(30):
            assert "no luck" in await next_part(answer)
            await site.store.delete_jobs("acme", [job_id], now_ms=site.clock.now_ms())
            assert "event: gone\n" in await answer.text()


async def test_what_failed_is_one_sum_wherever_it_is_called_so(site: Site) -> None:
    for code in (Code.FAILED, Code.ABANDONED):
        await site.add("x")
        await site.run(1, code, fingerprint="f", message="no luck")
    async with visitor(site, "operator") as operator:
        for path in ("/ui/operator", "/ui/operator/queues", "/ui/t/acme"):
            page = (await operator.get(path)).text
            rows = page[page.rindex("<table") :]
            assert 'title="failed, error and abandoned">Failed</th>' in rows, path
            assert "2" in FAILED.findall(rows), path


async def test_the_operator_sees_that_a_tenant_is_suspended_and_may_manage_its_jobs(site: Site) -> None:
    (job_id,) = await site.add("x")
    async with visitor(site, "operator") as operator:
        assert "is suspended" not in (await operator.get("/ui/t/acme")).text
        await operator.post("/ui/operator/tenants/acme/pause")
        board = await operator.get("/ui/t/acme")
        assert "This tenant is suspended" in board.text
        assert '<a href="/ui/operator/tenants/acme">resume it</a>' in board.text
        assert "Cancel" in (await operator.get(f"/ui/t/acme/job/{job_id}")).text
        assert (await operator.post(f"/ui/t/acme/job/{job_id}/cancel")).location.endswith("note=cancelled")


async def test_names_are_found_whatever_their_case(site: Site) -> None:
    await site.add("x")
    await site.run()
    async with visitor(site, "operator") as operator:
        for path in ("/ui/operator?q=ACM", "/ui/operator/queues?q=THUM", "/ui/t/acme?q=THUM"):
            assert "No t" not in (await operator.get(path)).text, path


async def test_without_a_script_times_are_called_what_they_are(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        assert ">Times are in UTC.<" in (await acme.get("/ui/t/acme")).text

"""What a row of the scoreboard says about its type: failing, cancelled, its rate, and pages that are not there."""

import re

from store.base import Archive, Code, Outcome
from tests.support.pages import Visitor, visitor
from tests.support.web import SYSID, Site

ROW = re.compile(r'<tr data-key="([^"]+)">(.*?)</tr>', re.DOTALL)


async def rows(visit: Visitor, query: str = "") -> dict[str, str]:
    """The rows of the board in their order, by type."""
    page = await visit.get(f"/ui/t/acme{query}")
    assert page.status == 200, page.text
    return dict(ROW.findall(page.text))


async def test_a_type_is_failing_however_many_kinds_of_error_another_one_has(site: Site) -> None:
    await site.add("x", path="/acme/job/a/add")
    await site.run(1, Code.FAILED, jobtype="acme-a", fingerprint="of a", message="no luck")
    site.clock.advance(1)
    await site.add(*map(str, range(120)), path="/acme/job/b/add")
    await site.intake.flush()
    now_ms = site.clock.now_ms()
    jobs = await site.store.claim_jobs("acme-b", 120, owner=SYSID, lease_ms=30_000, now_ms=now_ms)
    failed = Outcome(Code.FAILED, 400, now_ms)
    ends = [Archive(it.id, it.token, failed._replace(fingerprint=it.id, message=it.id)) for it in jobs]
    await site.store.release_jobs(SYSID, ends, now_ms=now_ms)
    await site.add("x", path="/acme/job/c/add")
    await site.run(1, jobtype="acme-c")
    async with visitor(site, "acme") as acme:
        shown = await rows(acme)
        assert ["failing</span>" in shown[it] for it in "abc"] == [True, True, False]
        assert list(await rows(acme, "?show=failing")) == ["a", "b"]


async def test_jobs_that_were_cancelled_are_neither_successes_nor_runs(site: Site) -> None:
    gone = await site.add(*"xyz", path="/acme/job/a/add")
    await site.add("x", path="/acme/job/b/add")
    await site.run(1, jobtype="acme-b")
    for job_id in gone:
        assert (await site.post(f"/acme/job/{job_id}/cancel")).status == 200
    async with visitor(site, "acme") as acme:
        shown = await rows(acme, "?sort=rate")
        assert list(shown) == ["b", "a"], "by runs"
        assert 'aria-label="last hour: 0 succeeded, 0 retried, 0 failed, 3 cancelled"' in shown["a"]
        assert re.findall(r'class="c-(\w+)"', shown["a"]) == ["cancelled"]
        assert ["/min" in shown[it] for it in "ab"] == [False, True]
        assert "<dt>Rate · last 5 min</dt><dd>0.2/min</dd>" in (await acme.get("/ui/t/acme")).text

"""What a row of the scoreboard says about its type: failing, cancelled, its rate; pages and numbers that are none."""

import re

from store.base import Archive, Code, Outcome
from tests.support.pages import Visitor, visitor
from tests.support.web import SYSID, Site

ROW = re.compile(r'<tr data-key="([^"]+)">(<th.*?)</tr>', re.DOTALL)


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


async def test_a_page_that_is_not_there_is_the_last_one(site: Site) -> None:
    for number in range(60):
        await site.add("x", path=f"/acme/job/type{number:02d}/add")
    await site.intake.flush()
    async with visitor(site, "acme") as acme:
        for start in (60, 1000):
            assert list(await rows(acme, f"?from={start}")) == [f"type{number}" for number in range(50, 60)], start
        assert list(await rows(acme, "?from=50&q=type1")) == [f"type1{number}" for number in range(10)]
        assert "No type matches" in (await acme.get("/ui/t/acme?from=50&q=none")).text
    async with visitor(site, "operator") as operator:
        tenants = (await operator.get("/ui/operator?from=50")).text
        assert "No tenants yet" not in tenants
        assert "/ui/operator/tenants/acme" in tenants
        queues = (await operator.get("/ui/operator/queues?from=200")).text
        assert ">type59<" in queues


async def test_a_number_in_a_form_is_of_ordinary_digits_and_not_endless(site: Site) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat")
    for text in ("²", "9" * 5000, "٣", "-1", ""):
        async with visitor(site, "operator") as operator:
            answer = await operator.post("/ui/operator/tenants/acme", {"weight": text})
            assert (answer.status, "from 1 to 1,000" in answer.text) == (422, True), text[:9]
        async with visitor(site, "acme") as acme:
            answer = await acme.post("/ui/t/acme/type/thumb/rollback", {"version": text})
            assert answer.status == 404, text[:9]

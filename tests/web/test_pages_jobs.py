"""The list of jobs: what a job is recognised by, and how to come to one that is known."""

import pytest

from tests.support.pages import visitor
from tests.support.web import Site


async def test_a_job_is_recognised_by_its_names(site: Site) -> None:
    await site.add("a", path="/acme/job/thumb/add?unique=order-17&delay_s=60")
    await site.add("b", path="/acme/job/thumb/add?key=customer-7&domain=api.example&delay_s=60")
    await site.add("c", path="/acme/job/thumb/add?delay_s=60&unique=%3Cb%3Ebold")
    await site.intake.flush()
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme/jobs?state=deferred")).text
        assert "order-17" in page
        assert "customer-7 · api.example" in page
        assert ("&lt;b&gt;bold" in page, "<b>bold" in page) == (True, False)


async def test_who_has_an_id_comes_to_its_job(site: Site) -> None:
    (job_id,) = await site.add("a")
    async with visitor(site, "acme") as acme:
        found = await acme.get(f"/ui/t/acme/find?id=%20{job_id}%20")
        assert (found.status, found.location) == (303, f"/ui/t/acme/job/{job_id}")
        assert (await acme.get(found.location)).status == 200
        name = await acme.get("/ui/t/acme/find?id=../../operator%0d%0aX: y")
        assert name.location == "/ui/t/acme/jobs?unique=..%2F..%2Foperator%0D%0AX%3A+y"
        assert (await acme.get(name.location)).status == 422, "no name has a line break"
        assert (await acme.get("/ui/t/acme/find?id=no-such-name")).location == "/ui/t/acme/jobs?unique=no-such-name"
        assert (await acme.get("/ui/t/acme/find")).location == "/ui/t/acme/jobs"
    async with visitor(site, "other") as other:
        assert (await other.get(f"/ui/t/acme/find?id={job_id}")).status == 404


@pytest.mark.parametrize("query", ["cursor=x", "state=unfinished&cursor=x", "state=unfinished&cursor=archived:x"])
async def test_a_cursor_that_is_wrong_is_said_in_its_place(site: Site, query: str) -> None:
    await site.add("1")
    await site.intake.flush()
    async with visitor(site, "acme") as acme:
        refused = await acme.get(f"/ui/t/acme/jobs?{query}")
        assert refused.status == 422
        assert "is not one of a listing of" in refused.text
        assert "No jobs in this state." not in refused.text
        assert '<a href="/ui/t/acme/jobs' in refused.text, "the way back"

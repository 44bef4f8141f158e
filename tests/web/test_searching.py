"""Jobs are looked for by what is in them: so many at a time, over HTTP, in a terminal and on the page."""

import asyncio
import re
from typing import Any

import pytest

from functory.operations import searching
from store.base import Code, JobFilter, JobState
from store.names import MAX_BEGIN_BYTES
from tests.support.pages import visitor
from tests.support.terminal import Terminal
from tests.support.web import Site


async def add(site: Site, *payloads: str) -> list[str]:
    ids = await site.add(*payloads)
    await site.intake.flush()
    return ids


async def search(site: Site, text: str, **more: Any) -> tuple[list[str], int]:
    """Page by page: what was found in all, and how many jobs were looked at."""
    found: list[str] = []
    looked_at, cursor = 0, None
    while True:
        params = {"contains": text, **more} | ({"cursor": cursor} if cursor else {})
        answer = await site.get("/acme/results", params=params)
        assert answer.status == 200, answer.body
        assert len(answer.json["jobs"]) <= int(more.get("limit", 100))
        found += [job["id"] for job in answer.json["jobs"]]
        looked_at += answer.json["looked_at"]
        cursor = answer.json["cursor"]
        if cursor is None:
            return found, looked_at


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_STEP", 7)
    monkeypatch.setattr(searching, "MOST_LOOKED_AT", 20)


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
async def test_every_job_that_has_the_text_is_found_once(site: Site, limit: int) -> None:
    ids = await add(site, *(f'{{"Customer": {number % 3}, "n": {number}}}' for number in range(60)))
    found, looked_at = await search(site, '"CUSTOMER": 2', state="waiting", limit=limit)
    assert sorted(found) == [ids[number] for number in range(2, 60, 3)]
    assert looked_at == 60
    assert await search(site, "nobody", state="waiting", limit=limit) == ([], 60)


async def test_a_request_looks_at_so_many_and_says_so(site: Site) -> None:
    await add(site, *(["x"] * 60))
    answer = (await site.get("/acme/results?state=waiting&contains=needle")).json
    assert (answer["jobs"], answer["looked_at"]) == ([], 21)
    assert answer["cursor"] is not None
    assert (await site.get("/acme/results?state=waiting")).json["looked_at"] is None


async def test_the_last_error_is_looked_at_as_well_and_other_filters_hold(site: Site) -> None:
    first, second = await site.add("one", "two")
    await site.run(2, Code.FAILED, message="No such mailbox: ÄRGER")
    await site.add("mailbox", path="/acme/job/other/add")
    await site.run(jobtype="acme-other")
    assert sorted((await search(site, "mailbox", code="failed"))[0]) == [first, second]
    assert (await search(site, "ÄRGER", type="th*"))[1] == 2
    assert len((await search(site, "MAILBOX"))[0]) == 3
    assert await search(site, "mailbox", state="waiting") == ([], 0)


async def test_only_what_was_asked_for_of_a_payload_is_shown(site: Site) -> None:
    await add(site, "abcdefgh")
    (job,) = (await site.get("/acme/results?state=waiting&contains=gh&payload_bytes=3")).json["jobs"]
    assert (job["payload"], job["payload_bytes"]) == ("abc", 8)
    (job,) = (await site.get("/acme/results?state=waiting&contains=gh")).json["jobs"]
    assert job["payload"] is None


@pytest.mark.parametrize("text", ["", "x" * 201])
async def test_what_nobody_looks_for_is_refused(site: Site, text: str) -> None:
    answer = await site.get("/acme/results", params={"contains": text})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "contains")


async def test_another_tenants_jobs_are_not_looked_at(site: Site) -> None:
    await site.add("secret", path="/other/job/thumb/add", key="other")
    assert await search(site, "secret", state="waiting") == ([], 0)


async def test_a_tenant_searches_once_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await add(site, *(["x"] * 60))
    under_way, most = 0, 0
    list_jobs = site.store.list_jobs

    async def counted(*args: Any, **more: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await list_jobs(*args, **more)
        finally:
            under_way -= 1

    monkeypatch.setattr(site.store, "list_jobs", counted)
    async with visitor(site) as guest:
        await guest.sign_in(site.keys["acme"])
        looks = [guest.get("/ui/t/acme/jobs?state=waiting&contains=needle") for _ in range(4)]
        await asyncio.gather(*looks, search(site, "needle", state="waiting"))
    assert most == 1


async def test_letters_of_any_alphabet_are_found_in_any_case(site: Site) -> None:
    ids = await add(site, "Ärger", "STRASSE", "λόγος")
    for text, job_id in zip(("ärGER", "straße", "ΛΌΓΟΣ"), ids, strict=True):
        assert (await search(site, text, state="waiting"))[0] == [job_id]


async def test_a_listing_does_not_wait_for_a_search(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, let_go, list_jobs = asyncio.Event(), asyncio.Event(), site.store.list_jobs

    async def held(*args: Any, max_bytes: int = 0, **more: Any) -> Any:
        if max_bytes == MAX_BEGIN_BYTES:
            reads.set()
            await let_go.wait()
        return await list_jobs(*args, max_bytes=max_bytes, **more)

    await add(site, "x")
    monkeypatch.setattr(site.store, "list_jobs", held)
    looking = asyncio.ensure_future(search(site, "x", state="waiting"))
    await reads.wait()
    async with asyncio.timeout(20):
        assert len((await site.get("/acme/results?state=waiting")).json["jobs"]) == 1
    let_go.set()
    assert len((await looking)[0]) == 1


async def test_a_search_ends_when_nobody_listens(site: Site) -> None:
    await add(site, *(["x"] * 60))
    where, heard = JobFilter(JobState.WAITING), iter([True, False])
    found = await searching.search(
        site.service, "acme", [JobState.WAITING], where, "needle", lambda: next(heard), cursor=None, limit=10
    )
    assert found.looked_at == 7


async def test_a_terminal_goes_on_until_something_is_found(site: Site, terminal: Terminal) -> None:
    ids = await add(site, *(f"{number}." for number in range(60)))
    said = await terminal.run("results", "--state", "waiting", "--contains", "55.")
    assert ids[55] in said
    assert re.search(r"Looked at [456]\d jobs\.", said)
    said = await terminal.run("results", "--state", "waiting", "--contains", "nobody")
    assert "No waiting jobs." in said
    assert "Looked at 60 jobs." in said


async def test_the_page_says_how_far_it_looked(site: Site) -> None:
    await add(site, *(f"<{number}>" for number in range(60)))
    async with visitor(site) as guest:
        await guest.sign_in(site.keys["acme"])
        page = await guest.get("/ui/t/acme/jobs?state=waiting&contains=%3C55%3E")
        assert "Looked at 21 jobs" in page.text
        assert "No jobs match." in page.text
        assert 'value="&lt;55&gt;"' in page.text
        [further] = re.findall(r'href="([^"]+)">Look further', page.text)
        for _ in range(2):
            page = await guest.get(further.replace("&amp;", "&"))
            further = next(iter(re.findall(r'href="([^"]+)">Look further', page.text)), further)
        assert "&lt;55&gt;" in page.text.partition("<tbody>")[2]
        assert "Cancel…" not in page.text, "that would be all jobs of the filter, and not those that were found"

"""Jobs that repeat, listed: over HTTP, by the command line, and on a page."""

from html import unescape
from urllib.parse import quote

import pytest

from store.base import Code, Outcome, Rearm
from tests.support.pages import Shown, visitor
from tests.support.terminal import Terminal
from tests.support.web import T0, Site
from vocabulary.zones import read_zones

HOUR_MS = 3_600_000
HOURLY = "FINISHED, +1 HOUR"
PAGE = "/ui/t/acme/schedules"


@pytest.fixture(autouse=True)
def zones() -> None:
    """The daemon has read them, as it does a little after its start."""
    read_zones()


async def add(site: Site, job_type: str, unique: str = "", repeat: str = HOURLY) -> str:
    path = f"/acme/job/{job_type}/add?repeat={quote(repeat)}{f'&unique={quote(unique)}' if unique else ''}"
    (job_id,) = await site.add("x", path=path)
    await site.intake.flush()
    return job_id


async def run_a_round(site: Site, job_type: str, code: Code = Code.OK) -> None:
    (job,) = await site.store.claim_jobs(f"acme-{job_type}", 1, owner="a7", lease_ms=60_000, now_ms=T0)
    ended = Outcome(code, 200 if code is Code.OK else 400, T0, message="" if code is Code.OK else "<b>no</b>")
    await site.store.release_jobs("a7", [Rearm(job.id, job.token, T0 + HOUR_MS, ended, None)], now_ms=T0)


async def test_they_are_listed_with_their_next_and_their_last_round(site: Site) -> None:
    waiting = await add(site, "mail")
    rearmed = await add(site, "feed", "news")
    await run_a_round(site, "feed")
    await site.add("x")
    answer = await site.call("GET", "/acme/schedules")
    assert answer.status == 200
    shown = [(it["id"], it["type"], it["unique"], it["repeat"], it["state"], it["code"]) for it in answer.json["jobs"]]
    assert shown == [
        (rearmed, "feed", "news", HOURLY, "deferred", "ok"),
        (waiting, "mail", "", HOURLY, "waiting", None),
    ]
    assert answer.json["jobs"][0]["due_ms"] == T0 + HOUR_MS
    assert answer.json["cursor"] is None


async def test_a_cursor_goes_on_and_a_wrong_one_is_refused(site: Site) -> None:
    ids = [await add(site, name) for name in ("a", "b", "c")]
    first = (await site.call("GET", "/acme/schedules?limit=2")).json
    second = (await site.call("GET", f"/acme/schedules?limit=2&cursor={quote(first['cursor'])}")).json
    assert [it["id"] for it in (*first["jobs"], *second["jobs"])] == ids
    assert second["cursor"] is None
    refused = await site.call("GET", "/acme/schedules?cursor=other-a.1")
    assert (refused.status, refused.json["error"]["detail"]["field"]) == (422, "cursor")


async def test_the_command_line_shows_them_as_a_table(site: Site, terminal: Terminal) -> None:
    assert "Nothing repeats" in await terminal.run("job", "schedules")
    await add(site, "feed", "news")
    await run_a_round(site, "feed")
    await add(site, "mail", "digest", "0 9 * * MON-FRI Europe/Berlin")
    lines = (await terminal.run("job", "schedules")).splitlines()
    assert lines[0].split() == ["id", "type", "name", "repeats", "next", "last", "rounds", "code"]
    assert "news" in lines[2]
    assert HOURLY in lines[2]
    assert lines[2].endswith("ok")
    assert "0 9 * * MON-FRI Europe/Berlin" in lines[3]


async def shown(answer: Shown) -> str:
    assert answer.status == 200, answer.text
    return unescape(answer.text)


async def test_the_page_shows_them_as_text_and_leads_to_their_jobs(site: Site) -> None:
    job_id = await add(site, "feed", "<i>news</i>")
    await run_a_round(site, "feed", Code.FAILED)
    async with visitor(site, "acme") as acme:
        page = await acme.get(PAGE)
        assert "<i>" not in page.text
        assert "<b>no</b>" not in page.text
        assert f'<a href="/ui/t/acme/job/{job_id}">' in page.text
        assert "in 1 h" in await shown(page)
        assert "<i>news</i>" in await shown(page)
        assert "Run now" in (await acme.get(f"/ui/t/acme/job/{job_id}")).text
        await acme.post(f"/ui/t/acme/job/{job_id}/cancel")
        assert "Nothing repeats." in await shown(await acme.get(PAGE))


async def test_the_page_goes_on_after_fifty_of_them(site: Site) -> None:
    for number in range(51):
        await add(site, f"t{number:02}")
    async with visitor(site, "acme") as acme:
        first = await shown(await acme.get(PAGE))
        assert "t49" in first
        assert "t50" not in first
        further = first.split('rel="next" href="')[1].split('"')[0]
        assert "t50" in await shown(await acme.get(further))
        refused = await acme.get(f"{PAGE}?cursor=x")
        assert "Nothing repeats." not in refused.text
        assert refused.status == 422
        assert "<h1>Schedules</h1>" in refused.text


async def test_a_schedule_is_made_with_the_form_of_a_job_and_changed_by_its_name(site: Site) -> None:
    form = {"payload": "p", "unique": "digest", "repeat": "0 9 * * MON-FRI Europe/Berlin"}
    async with visitor(site, "acme") as acme:
        made = await acme.post("/ui/t/acme/type/mail/post", form)
        assert made.status == 303, made.text
        again = await acme.post("/ui/t/acme/type/mail/post", {**form, "repeat": "0 8 * * *"})
        assert again.location == made.location
        await acme.post("/ui/t/acme/type/mail/post", {"payload": "q", "unique": "digest"})
        page = await shown(await acme.get(PAGE))
        assert "0 8 * * *" in page
        assert "Europe/Berlin" not in page
        refused = await acme.post("/ui/t/acme/type/mail/post", {**form, "repeat": "0 25 * * *"})
        assert refused.status == 422
        assert 'value="0 25 * * *"' in refused.text


async def test_a_paused_one_that_ends_with_its_next_round_is_shown_with_that(site: Site, terminal: Terminal) -> None:
    job_id = await add(site, "thumb", "nightly")
    await site.post(f"/acme/job/{job_id}/pause")
    assert (await site.call("PATCH", f"/acme/job/{job_id}", json={"repeat": ""})).status == 200
    (row,) = [line for line in (await terminal.run("job", "schedules")).splitlines() if job_id in line]
    assert ("last round" in row, "paused" in row) == (True, True)
    async with visitor(site, "acme") as acme:
        assert "<bdi>last round</bdi>" in (await acme.get("/ui/t/acme/schedules")).text

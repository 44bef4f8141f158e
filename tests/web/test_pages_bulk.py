"""Many jobs are cancelled or deleted from the pages: a dry run first, then exactly what it showed."""

import re

import pytest

from store.base import Code
from tests.support.pages import visitor
from tests.support.web import Site

FOUND = re.compile(r"<h2>([\d,]+) jobs? match(?:es)?</h2>")
ACTIONS = re.compile(r'<a class="button" href="([^"]*)">(Cancel…|Delete…|Run again…)</a>')


@pytest.fixture
async def reader(site: Site) -> None:
    made = await site.post("/admin/tenants/acme/keys", key="operator", json={"scopes": ["read"]})
    site.keys["reader"] = made.json["key"]


async def states_of(site: Site, state: str) -> int:
    return len((await site.get(f"/acme/results?state={state}&limit=1000")).json["jobs"])


async def test_waiting_jobs_are_looked_at_and_cancelled(site: Site) -> None:
    await site.add(*"abc")
    await site.add("keep", path="/acme/job/mail/add")
    async with visitor(site, "acme") as acme:
        looked = await acme.get("/ui/t/acme/cancel?type=th*&waiting=yes&look=1")
        assert FOUND.findall(looked.text) == ["3"]
        assert ">Cancel 3 jobs<" in looked.text
        assert await states_of(site, "waiting") == 4, "nothing has changed"
        done = await acme.post("/ui/t/acme/cancel", {"type": "th*", "waiting": "yes", "look": "1"})
        assert done.location == "/ui/t/acme/cancel?type=th%2A&waiting=yes&age=any&look=1&note=jobs_cancelled"
        shown = await acme.get(done.location)
        assert (FOUND.findall(shown.text), "Jobs cancelled." in shown.text) == (["0"], True)
        assert await states_of(site, "waiting") == 1, "of another type"
        again = await acme.post("/ui/t/acme/cancel", {"type": "th*", "waiting": "yes"})
        assert again.location.endswith("note=nothing_matched")


async def test_what_was_added_after_the_dry_run_is_not_cancelled(site: Site) -> None:
    await site.add(*"abc")
    async with visitor(site, "acme") as acme:
        looked = await acme.get("/ui/t/acme/cancel?type=thumb&waiting=yes&look=1")
        (at_ms,) = re.findall(r'name="at_ms" value="(\d+)"', looked.text)
        site.clock.advance(1)
        await site.add("later")
        await acme.post("/ui/t/acme/cancel", {"type": "thumb", "waiting": "yes", "at_ms": at_ms, "look": "1"})
    assert await states_of(site, "waiting") == 1


async def test_only_the_chosen_states_are_cancelled(site: Site) -> None:
    await site.add("now")
    await site.add("later", path="/acme/job/thumb/add?delay_s=600")
    async with visitor(site, "acme") as acme:
        await acme.post("/ui/t/acme/cancel", {"type": "*", "deferred": "yes"})
    assert (await states_of(site, "waiting"), await states_of(site, "deferred")) == (1, 0)


async def test_ended_jobs_are_deleted_by_outcome_and_age(site: Site) -> None:
    await site.add("old")
    await site.run(code=Code.FAILED)
    site.clock.advance(2 * 3600)
    await site.add("new", "fine")
    await site.run(1, Code.FAILED)
    await site.run(1)
    async with visitor(site, "acme") as acme:
        query = "type=thumb&failed=yes&look=1"
        counts = {
            age: FOUND.findall((await acme.get(f"/ui/t/acme/delete?{query}&age={age}")).text)
            for age in ("any", "1h", "over-1h", "over-1d")
        }
        assert counts == {"any": ["2"], "1h": ["1"], "over-1h": ["1"], "over-1d": ["0"]}
        done = await acme.post("/ui/t/acme/delete", {"type": "thumb", "failed": "yes", "age": "over-1h"})
        assert done.location.endswith("note=jobs_deleted")
    left = (await site.get("/acme/results")).json["jobs"]
    assert sorted(job["code"] for job in left) == ["failed", "ok"]


async def test_the_page_takes_as_many_as_one_call_and_says_that_there_are_more(site: Site) -> None:
    await site.add(*(str(number) for number in range(1001)))
    async with visitor(site, "acme") as acme:
        looked = await acme.get("/ui/t/acme/cancel?type=thumb&waiting=yes&look=1")
        assert (FOUND.findall(looked.text), "and more: cancel these" in looked.text) == (["1,000"], True)
        done = await acme.post("/ui/t/acme/cancel", {"type": "thumb", "waiting": "yes"})
        assert FOUND.findall((await acme.get(done.location)).text) == ["1"]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("query", "named", "links"),
    [
        ("state=waiting", "Cancel…", "cancel?waiting=yes"),
        ("state=waiting&type=th*", "Cancel…", "cancel?type=th%2A&look=1&waiting=yes"),
        ("code=failed,abandoned&age=1d", "Run again…", "replay?failed=yes&abandoned=yes&age=1d"),
        ("code=ok&type=thumb", "Delete…", "delete?type=thumb&look=1&ok=yes&age=any"),
        ("key=k&state=waiting", "Cancel…", "cancel?key=k&look=1&waiting=yes"),
        ("failure=f&code=failed&state=archived", "Delete…", "delete?failure=f&look=1&failed=yes&age=any"),
    ],
)
async def test_a_list_leads_to_what_can_be_done_with_it(site: Site, query: str, named: str, links: str) -> None:
    async with visitor(site, "acme") as acme:
        page = await acme.get(f"/ui/t/acme/jobs?{query}")
        found = {words: link.replace("&amp;", "&") for link, words in ACTIONS.findall(page.text)}
        assert found[named] == f"/ui/t/acme/{links}"
        assert (await acme.get(found[named])).status == 200
    async with visitor(site, "reader") as reader:
        assert ACTIONS.findall((await reader.get(f"/ui/t/acme/jobs?{query}")).text) == []


@pytest.mark.usefixtures("reader")
async def test_who_may_only_read_sees_the_dry_run_and_changes_nothing(site: Site) -> None:
    await site.add("x")
    async with visitor(site, "reader") as reader:
        looked = await reader.get("/ui/t/acme/cancel?type=*&waiting=yes&look=1")
        assert (FOUND.findall(looked.text), "Your key may not cancel jobs" in looked.text) == (["1"], True)
        assert (await reader.post("/ui/t/acme/cancel", {"type": "*", "waiting": "yes"})).status == 403
    assert await states_of(site, "waiting") == 1


async def test_jobs_of_another_tenant_are_not_in_reach(site: Site) -> None:
    await site.add("x")
    async with visitor(site, "other") as other:
        assert FOUND.findall((await other.get("/ui/t/other/cancel?type=*&waiting=yes&look=1")).text) == ["0"]
        assert (await other.get("/ui/t/acme/cancel?type=*&waiting=yes&look=1")).status == 404
        assert (await other.post("/ui/t/acme/delete", {"type": "*", "ok": "yes"})).status == 404
    assert await states_of(site, "waiting") == 1


async def test_a_replay_takes_a_pattern_of_types(site: Site) -> None:
    await site.add("x")
    await site.run(code=Code.FAILED)
    async with visitor(site, "acme") as acme:
        looked = await acme.get("/ui/t/acme/replay?type=th*&failed=yes&age=1d&look=1")
        assert FOUND.findall(looked.text) == ["1"]
        begun = await acme.post("/ui/t/acme/replay", {"type": "th*", "failed": "yes", "age": "1d", "limit": "10"})
        assert "0 of 1 finished" in (await acme.get(begun.location)).text
        none = await acme.get("/ui/t/acme/replay?type=mail*&failed=yes&age=1d&look=1")
        assert FOUND.findall(none.text) == ["0"]


async def test_a_list_shows_what_ended_at_the_chosen_time(site: Site) -> None:
    await site.add("old")
    (old,) = await site.run()
    site.clock.advance(2 * 3600)
    await site.add("new")
    (new,) = await site.run()
    async with visitor(site, "acme") as acme:
        recent = (await acme.get("/ui/t/acme/jobs?age=1h")).text
        before = (await acme.get("/ui/t/acme/jobs?age=over-1h")).text
        assert (old in recent, new in recent, old in before, new in before) == (False, True, True, False)
        assert "No jobs match." in (await acme.get("/ui/t/acme/jobs?age=over-30d")).text


async def test_a_cursor_that_is_none_is_said_in_its_place(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        page = await acme.get("/ui/t/acme/jobs?cursor=nonsense")
        assert (page.status, "<h1>Jobs</h1>" in page.text, 'id="problem"' in page.text) == (422, True, True)


async def test_schedules_are_left_alone_and_told(site: Site) -> None:
    await site.add("a", "b")
    await site.add("nightly", path="/acme/job/thumb/add?unique=n&repeat=FINISHED,%20%2B1%20DAY&delay_s=60")
    async with visitor(site, "acme") as acme:
        looked = await acme.get("/ui/t/acme/cancel?type=thumb&waiting=yes&deferred=yes&look=1")
        assert (FOUND.findall(looked.text), "1 schedule matches" in looked.text) == (["2"], True)
        await acme.post("/ui/t/acme/cancel", {"type": "thumb", "waiting": "yes", "deferred": "yes"})
        assert (await states_of(site, "waiting"), await states_of(site, "deferred")) == (0, 1)
        (schedule,) = (await site.get("/acme/schedules")).json["jobs"]
        await site.post(f"/acme/job/{schedule['id']}/cancel")
        looked = await acme.get("/ui/t/acme/replay?type=thumb&cancelled=yes&age=1d&look=1")
        assert (FOUND.findall(looked.text), "1 schedule matches" in looked.text) == (["2"], True)
        assert schedule["id"] not in looked.text


@pytest.mark.parametrize("deed", ["delete", "replay"])
async def test_what_ends_after_the_dry_run_is_not_meant(site: Site, deed: str) -> None:
    """The button says a number, and does no more than that."""
    await site.add(*"ab")
    await site.run(code=Code.FAILED)
    async with visitor(site, "acme") as acme:
        looked = await acme.get(f"/ui/t/acme/{deed}?type=thumb&failed=yes&age=any&limit=10&look=1")
        (at_ms,) = re.findall(r'name="at_ms" value="(\d+)"', looked.text)
        site.clock.advance(5)
        await site.add(*"cde")
        await site.run(code=Code.FAILED)
        form = {"type": "thumb", "failed": "yes", "age": "any", "limit": "10", "at_ms": at_ms}
        await acme.post(f"/ui/t/acme/{deed}", form)
    assert await states_of(site, "archived") == 3


async def test_the_examples_are_those_that_the_button_acts_on(site: Site) -> None:
    for number in range(25):
        await site.add(f"{number}", path="/acme/job/thumb/add?repeat=FINISHED,%20%2B1%20HOUR")
    ids = await site.add(*"abc")
    async with visitor(site, "acme") as acme:
        looked = await acme.get("/ui/t/acme/cancel?type=*&waiting=yes&look=1")
        assert (FOUND.findall(looked.text), "25 schedules match" in looked.text) == (["3"], True)
        assert all(job_id in looked.text for job_id in ids)

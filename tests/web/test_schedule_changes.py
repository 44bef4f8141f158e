"""A schedule is looked back at, paused, resumed, changed and run once more: over HTTP, by command, on the pages."""

from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from store.base import Code, Outcome, Rearm
from tests.support.pages import visitor
from tests.support.site_schedules import CRON, DAY_MS, HOUR_MS, HOURLY, add, claim, read
from tests.support.terminal import Terminal
from tests.support.web import T0, Site
from vocabulary.zones import read_zones


@pytest.fixture(autouse=True)
def zones() -> None:
    """The daemon has read them, as it does a little after its start."""
    read_zones()


async def run_a_round(site: Site, next_ms: int = T0 + HOUR_MS, code: Code = Code.OK) -> None:
    job, now_ms = await claim(site), site.clock.now_ms()
    ended = Outcome(code, 200 if code is Code.OK else 400, now_ms, 1500, handler_version=3)
    ended = ended if code is Code.OK else ended._replace(message="<b>no feed</b>")
    await site.store.release_jobs("a7", [Rearm(job.id, job.token, next_ms, ended)], now_ms=now_ms)


# Rounds


async def test_the_rounds_of_a_schedule_are_shown_oldest_first(site: Site) -> None:
    job_id = await add(site)
    await run_a_round(site, T0, Code.FAILED)
    await run_a_round(site)
    rounds = (await read(site, job_id))["rounds"]
    assert [(it["code"], it["exitcode"], it["message"]) for it in rounds] == [
        ("failed", 400, "<b>no feed</b>"),
        ("ok", 200, ""),
    ]
    assert rounds[0] | {"message": ""} == {
        "planned_ms": rounds[0]["planned_ms"], "started_ms": T0, "duration_us": 1500, "code": "failed",
        "exitcode": 400, "message": "", "attempts": 1, "handler_version": 3, "daemon": "a7",
    }  # fmt: skip
    (listed,) = (await site.get("/acme/schedules")).json["jobs"]
    assert [it["code"] for it in listed["rounds"]] == ["failed", "ok"]


async def test_the_command_line_shows_them_newest_first(site: Site, terminal: Terminal) -> None:
    job_id = await add(site)
    await run_a_round(site, T0, Code.FAILED)
    await run_a_round(site)
    shown = await terminal.run("job", "get", job_id)
    table = shown.split("rounds, newest first:\n")[1].splitlines()
    assert table[0].split()[:3] == ["planned", "started", "code"]
    assert " ok " in table[2]
    assert "<b>no feed</b>" in table[3]
    (_, _, line, _) = (await terminal.run("job", "schedules")).splitlines()
    assert " F. " in line


async def test_the_pages_show_them_as_text(site: Site) -> None:
    job_id = await add(site)
    await run_a_round(site, T0, Code.FAILED)
    await run_a_round(site)
    async with visitor(site, "acme") as acme:
        page = (await acme.get(f"/ui/t/acme/job/{job_id}")).text
        table = page.split('<table id="rounds">')[1].split("</table>")[0]
        assert "<b>no feed" not in table
        assert "<b>no feed</b>" in unescape(table)
        assert table.index("st-ok") < table.index("st-failed")
        assert "oldest first: failed, ok" in (await acme.get("/ui/t/acme/schedules")).text


# Pause and resume


async def test_a_schedule_is_paused_and_resumed(site: Site) -> None:
    job_id = await add(site, unique="news")
    assert (await site.post(f"/acme/job/{job_id}/pause")).status == 200
    job = await read(site, job_id)
    assert (job["state"], job["pause"]["since_ms"]) == ("paused", T0)
    why = (await site.get(f"/acme/job/{job_id}/why")).json
    assert why["reason"] == "schedule_paused"
    assert why["text"].startswith("this schedule was paused at ")
    assert f" by {job['pause']['by']}" in why["text"]
    assert await claim(site) is None
    (listed,) = (await site.get("/acme/schedules")).json["jobs"]
    assert (listed["state"], listed["pause"]) == ("paused", job["pause"])
    assert (await site.post(f"/acme/job/{job_id}/resume")).status == 200
    assert (await read(site, job_id))["pause"] is None
    assert (await claim(site)).id == job_id


async def test_one_that_has_just_been_accepted_can_be_paused(site: Site) -> None:
    (job_id,) = await site.add("x", path=f"/acme/job/feed/add?repeat={quote(HOURLY)}")
    assert (await site.post(f"/acme/job/{job_id}/pause")).status == 200
    assert (await read(site, job_id))["state"] == "paused"


async def test_rounds_of_the_calendar_that_were_missed_are_not_made_up_for(site: Site) -> None:
    job_id = await add(site, CRON)
    first_ms = (await read(site, job_id))["due_ms"]
    await site.post(f"/acme/job/{job_id}/pause")
    site.clock.advance(3 * DAY_MS / 1000)
    await site.post(f"/acme/job/{job_id}/resume")
    job = await read(site, job_id)
    assert (job["state"], job["due_ms"]) == ("deferred", first_ms + 3 * DAY_MS)


@pytest.mark.parametrize("repeat", [HOURLY, "SCHEDULED, +1 HOUR"])
async def test_a_distance_goes_on_as_after_an_outage(site: Site, repeat: str) -> None:
    job_id = await add(site, repeat, delay_s=60)
    await site.post(f"/acme/job/{job_id}/pause")
    site.clock.advance(3 * DAY_MS / 1000)
    await site.post(f"/acme/job/{job_id}/resume")
    job = await read(site, job_id)
    assert (job["state"], job["due_ms"]) == ("waiting", T0 + 60_000)


async def test_a_round_that_is_not_missed_keeps_its_time(site: Site) -> None:
    job_id = await add(site, CRON, delay_s=60)
    await site.post(f"/acme/job/{job_id}/pause")
    await site.post(f"/acme/job/{job_id}/resume")
    assert (await read(site, job_id))["due_ms"] == T0 + 60_000


async def test_saying_it_again_does_not_resume_it(site: Site) -> None:
    job_id = await add(site, unique="news")
    await site.post(f"/acme/job/{job_id}/pause")
    assert await add(site, unique="news") == job_id
    assert (await read(site, job_id))["state"] == "paused"


async def test_who_can_pause_what(site: Site) -> None:
    (plain,) = await site.add("x")
    await site.intake.flush()
    answer = await site.post(f"/acme/job/{plain}/pause")
    assert (answer.status, answer.code) == (409, "conflict")
    assert "does not repeat" in answer.json["error"]["message"]
    job_id = await add(site)
    for action in ("pause", "resume"):
        assert (await site.post(f"/acme/job/{job_id}/{action}", key="other")).status == 403
        assert (await site.post(f"/acme/job/20261114T235959123Z-a7-00001f/{action}")).status == 404


async def test_pause_and_resume_are_in_the_audit_log(site: Site) -> None:
    job_id = await add(site)
    await site.post(f"/acme/job/{job_id}/pause")
    await site.post(f"/acme/job/{job_id}/resume")
    page = await site.get("/admin/audit?tenant=acme", key="operator")
    assert [row["action"] for row in page.json["events"]][:2] == ["schedule.resume", "schedule.pause"]


async def test_the_command_line_pauses_and_resumes(site: Site, terminal: Terminal) -> None:
    job_id = await add(site)
    assert "paused       since " in await terminal.run("job", "pause", job_id)
    assert "paused " in (await terminal.run("job", "schedules")).splitlines()[2]
    assert "paused" not in await terminal.run("job", "resume", job_id)


async def test_the_pages_pause_and_resume(site: Site) -> None:
    job_id = await add(site, delay_s=60)
    async with visitor(site, "acme") as acme:
        here = f"/ui/t/acme/job/{job_id}"
        answer = await acme.post(f"{here}/pause")
        page = (await acme.get(str(answer.location))).text
        assert "this schedule was paused at" in page
        assert ">Resume<" in page
        assert ">Pause<" not in page
        assert "Held by a consumer" not in page
        await site.post(f"/acme/job/{job_id}/retry", json={})
        await run_a_round(site)
        page = (await acme.get(here)).text
        assert "Paused until it is resumed" in page
        assert "Deferred until" not in page
        assert "st-paused" in (await acme.get("/ui/t/acme/schedules")).text
        await acme.post(f"{here}/resume")
        assert ">Pause<" in (await acme.get(here)).text


# Changes


async def test_a_schedule_is_changed(site: Site) -> None:
    job_id = await add(site, CRON)
    first_ms = (await read(site, job_id))["due_ms"]
    changed = {"repeat": "0 10 * * *", "priority": 1000, "payload": "new"}
    assert (await site.call("PATCH", f"/acme/job/{job_id}", json=changed)).status == 200
    job = await read(site, job_id)
    assert (job["repeat"], job["priority"], job["payload"]) == ("0 10 * * *", 1000, "new")
    assert job["due_ms"] == first_ms + HOUR_MS
    await site.call("PATCH", f"/acme/job/{job_id}", json={"delay_s": 5})
    assert (await read(site, job_id))["due_ms"] == T0 + 5000
    await site.call("PATCH", f"/acme/job/{job_id}", json={"repeat": HOURLY})
    assert (await read(site, job_id))["due_ms"] == T0 + 5000
    await site.call("PATCH", f"/acme/job/{job_id}", json={"repeat": ""})
    assert (await site.get("/acme/schedules")).json["jobs"] == []


@pytest.mark.parametrize(
    ("said", "status", "text"),
    [
        ({"repeat": "0 25 * * *"}, 422, "hour"),
        ({"repeat": "FINISHED, START OF DAY"}, 422, "does not lead forward"),
        ({"priority": 7}, 422, "priority"),
        ({"delay_s": 5, "next_run": 9}, 422, "not both"),
        ({"next_run": "soon"}, 422, "next_run"),
        ({}, 422, "say what to change"),
    ],
)
async def test_what_cannot_be_is_refused_as_for_a_new_job(site: Site, said: Any, status: int, text: str) -> None:
    job_id = await add(site, CRON)
    before = await read(site, job_id)
    answer = await site.call("PATCH", f"/acme/job/{job_id}", json=said)
    assert answer.status == status
    assert text in str(answer.json)
    assert await read(site, job_id) == before


async def test_a_job_that_does_not_repeat_gets_a_priority_but_no_pattern(site: Site) -> None:
    (job_id,) = await site.add("x")
    assert (await site.call("PATCH", f"/acme/job/{job_id}", json={"priority": 1000})).status == 200
    assert (await read(site, job_id))["priority"] == 1000
    refused: list[dict[str, Any]] = [{"repeat": CRON}, {"delay_s": 5}]
    for said in refused:
        answer = await site.call("PATCH", f"/acme/job/{job_id}", json=said)
        assert (answer.status, "does not repeat" in str(answer.json)) == (409, True)


async def test_the_command_line_changes_and_looks_ahead(site: Site, terminal: Terminal) -> None:
    job_id = await add(site)
    shown = await terminal.run("job", "update", job_id, "--repeat", CRON, "--priority", "1000")
    assert CRON in shown
    assert (await read(site, job_id))["payload"] == "x"
    await terminal.run("job", "update", job_id, "other")
    assert (await read(site, job_id))["payload"] == "other"
    assert len((await terminal.run("job", "next-times", CRON, "--count", "3")).splitlines()) == 3


async def test_the_next_times_of_a_pattern(site: Site) -> None:
    times = (await site.get(f"/acme/schedules/next?repeat={quote(CRON)}&count=3")).json["times_ms"]
    assert [later - times[0] for later in times] == [0, DAY_MS, 2 * DAY_MS]
    assert times[0] > T0
    times = (await site.get(f"/acme/schedules/next?repeat={quote(HOURLY)}")).json["times_ms"]
    assert times == [T0 + n * HOUR_MS for n in range(5)]
    assert (await site.get(f"/acme/schedules/next?repeat={quote('0 25 * * *')}")).status == 422
    assert (await site.get(f"/acme/schedules/next?repeat={quote(CRON)}&count=21")).status == 422


async def test_the_form_shows_when_it_would_run_before_it_is_saved(site: Site) -> None:
    job_id = await add(site, CRON)
    here = f"/ui/t/acme/job/{job_id}/schedule"
    form = {"repeat": "0 10 * * *", "next_run": "", "priority": "500", "payload": "x"}
    async with visitor(site, "acme") as acme:
        assert 'value="0 9 * * *"' in (await acme.get(here)).text
        looked = await acme.post(here, {**form, "look": "yes"})
        times = looked.text.split('<ol id="times">')[1].split("</ol>")[0]
        assert (times.count("<li>"), times.count("T10:00:00")) == (5, 5)
        assert (await read(site, job_id))["repeat"] == CRON
        distance = await acme.post(here, {**form, "repeat": HOURLY, "look": "yes"})
        assert distance.text.split('<ol id="times">')[1].count("T09:00:00") == 1
        refused = await acme.post(here, {**form, "repeat": "0 25 * * *"})
        assert (refused.status, 'value="0 25 * * *"' in refused.text) == (422, True)
        saved = await acme.post(here, {**form, "payload": "<new>", "priority": "1000"})
        assert saved.status == 303, saved.text
        job = await read(site, job_id)
        assert (job["repeat"], job["payload"], job["priority"]) == ("0 10 * * *", "<new>", 1000)
        assert "&lt;new&gt;" in (await acme.get(here)).text


# Once more


async def test_run_now_is_a_round_beside_the_regular_ones(site: Site) -> None:
    job_id = await add(site, "SCHEDULED, +1 HOUR", delay_s=60)
    assert (await site.post(f"/acme/job/{job_id}/retry", json={})).status == 200
    job = await read(site, job_id)
    assert (job["state"], job["regular_ms"]) == ("waiting", T0 + 60_000)
    await run_a_round(site)
    job = await read(site, job_id)
    assert (job["state"], job["due_ms"], job["regular_ms"]) == ("deferred", T0 + 60_000, None)


async def test_a_paused_schedule_can_be_run_once(site: Site) -> None:
    job_id = await add(site, CRON)
    await site.post(f"/acme/job/{job_id}/pause")
    async with visitor(site, "acme") as acme:
        assert ">Run now<" in (await acme.get(f"/ui/t/acme/job/{job_id}")).text
        await acme.post(f"/ui/t/acme/job/{job_id}/retry")
    await run_a_round(site)
    assert (await read(site, job_id))["state"] == "paused"


async def test_a_retry_with_a_time_moves_the_next_round(site: Site) -> None:
    job_id = await add(site, CRON)
    await site.post(f"/acme/job/{job_id}/retry", json={"delay_s": 5})
    job = await read(site, job_id)
    assert (job["due_ms"], job["regular_ms"]) == (T0 + 5000, None)


async def test_a_paused_schedule_that_ends_with_its_next_round_has_that_when_it_is_run(site: Site) -> None:
    job_id = await add(site, CRON)
    await site.post(f"/acme/job/{job_id}/pause")
    await site.call("PATCH", f"/acme/job/{job_id}", json={"repeat": ""})
    assert (await site.post(f"/acme/job/{job_id}/retry", json={})).status == 200
    assert (await claim(site)).id == job_id


async def test_a_retry_with_a_time_moves_the_next_round_of_a_paused_one_which_stays_paused(site: Site) -> None:
    job_id = await add(site, CRON)
    await site.post(f"/acme/job/{job_id}/pause")
    assert (await site.post(f"/acme/job/{job_id}/retry", json={"delay_s": 5})).status == 200
    job = await read(site, job_id)
    assert (job["state"], job["due_ms"], job["regular_ms"]) == ("paused", T0 + 5000, None)


async def test_a_paused_one_does_not_run_as_another_type_than_was_said(site: Site) -> None:
    job_id = await add(site, CRON)
    await site.post(f"/acme/job/{job_id}/pause")
    answer = await site.post(f"/acme/job/{job_id}/retry", json={"type": "other"})
    assert (answer.status, "cannot get another type now" in str(answer.json)) == (409, True)
    assert (await read(site, job_id))["state"] == "paused"


# How it is told


async def test_one_that_was_cancelled_while_it_was_paused_is_not_called_paused(site: Site, terminal: Terminal) -> None:
    job_id = await add(site)
    await site.post(f"/acme/job/{job_id}/pause")
    await site.post(f"/acme/job/{job_id}/cancel")
    assert (await read(site, job_id))["pause"] is None
    assert "paused" not in await terminal.run("job", "get", job_id)


async def test_the_command_line_calls_a_paused_schedule_so_everywhere(site: Site, terminal: Terminal) -> None:
    job_id = await add(site)
    await claim(site)
    await site.post(f"/acme/job/{job_id}/pause")
    assert "running, then paused" in await terminal.run("job", "schedules")
    other = await add(site, CRON)
    await site.post(f"/acme/job/{other}/pause")
    assert (await terminal.run("job", "why", other)).startswith("paused (schedule_paused): ")

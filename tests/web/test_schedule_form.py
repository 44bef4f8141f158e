"""The form that changes a schedule: what it shows before it is saved, and what it leaves alone."""

import pytest

from store.base import JobChange, Rearm
from tests.support.jobs import outcome
from tests.support.pages import Visitor, visitor
from tests.support.site_schedules import CRON, DAY_MS, HOUR_MS, HOURLY, add, claim, read
from tests.support.web import T0, Site
from vocabulary.time_text import iso_time
from vocabulary.zones import read_zones


@pytest.fixture(autouse=True)
def zones() -> None:
    read_zones()


async def fields(acme: Visitor, here: str) -> dict[str, str]:
    """As a browser sends them back if nobody types anything."""
    page = (await acme.get(here)).text
    hidden = {
        line.split('"')[0]: line.split('value="')[1].split('"')[0]
        for line in page.split('<input type="hidden" name="')[1:]
        if line.startswith("shown_")
    }
    payload = page.split('spellcheck="false">\n')[1].split("</textarea>")[0]
    repeat = page.split('id="repeat"')[1].split('value="')[1].split('"')[0]
    return {**hidden, "repeat": repeat, "next_run": "", "priority": "500", "payload": payload}


async def look(acme: Visitor, here: str, **typed: str) -> list[str]:
    """The times that it shows."""
    shown = await acme.post(here, {**await fields(acme, here), **typed, "look": "yes"})
    assert shown.status == 200, shown.text
    return [part.split('"')[0] for part in shown.text.split('<ol id="times">')[1].split('datetime="')[1:]]


async def test_what_a_round_carried_on_meanwhile_is_not_put_back(site: Site) -> None:
    job_id = await add(site)
    here = f"/ui/t/acme/job/{job_id}/schedule"
    async with visitor(site, "acme") as acme:
        form = await fields(acme, here)
        job = await claim(site)
        carried = Rearm(job.id, job.token, T0 + HOUR_MS, outcome(), b"carried")
        await site.store.release_jobs("a7", [carried], now_ms=T0)
        looked = await acme.post(here, {**form, "priority": "1000", "look": "yes"})
        assert f'name="shown_payload" value="{form["shown_payload"]}"' in looked.text
        assert (await acme.post(here, {**form, "priority": "1000"})).status == 303
        changed = await read(site, job_id)
        assert (changed["payload"], changed["priority"]) == ("carried", 1000)
        assert (await acme.post(here, {**form, "payload": "typed"})).status == 303
        assert (await read(site, job_id))["payload"] == "typed"


async def test_nor_what_somebody_else_changed(site: Site) -> None:
    job_id = await add(site)
    here = f"/ui/t/acme/job/{job_id}/schedule"
    async with visitor(site, "acme") as acme:
        form = await fields(acme, here)
        await site.store.update_job("acme", job_id, JobChange(repeat=CRON, priority=1000), now_ms=T0)
        assert (await acme.post(here, {**form, "payload": "typed"})).status == 303
        changed = await read(site, job_id)
        assert (changed["repeat"], changed["priority"], changed["payload"]) == (CRON, 1000, "typed")


async def test_a_time_that_has_passed_is_now_as_it_is_when_it_is_saved(site: Site) -> None:
    here = f"/ui/t/acme/job/{await add(site, HOURLY, delay_s=60)}/schedule"
    async with visitor(site, "acme") as acme:
        times = await look(acme, here, next_run="2020-01-01")
        assert times[:2] == [iso_time(T0), iso_time(T0 + HOUR_MS)]


async def test_the_last_round_is_at_the_time_that_is_given(site: Site) -> None:
    here = f"/ui/t/acme/job/{await add(site, HOURLY, delay_s=60)}/schedule"
    async with visitor(site, "acme") as acme:
        assert await look(acme, here, repeat="") == [iso_time(T0 + 60_000)]
        assert await look(acme, here, repeat="", next_run=str(T0 + 5000)) == [iso_time(T0 + 5000)]


async def test_one_that_is_paused_shows_no_rounds_that_a_resume_would_leave_out(site: Site) -> None:
    job_id = await add(site, CRON)
    here = f"/ui/t/acme/job/{job_id}/schedule"
    first_ms = (await read(site, job_id))["due_ms"]
    await site.post(f"/acme/job/{job_id}/pause")
    site.clock.advance(3 * DAY_MS / 1000)
    async with visitor(site, "acme") as acme:
        assert (await look(acme, here))[0] == iso_time(first_ms + 3 * DAY_MS)


async def test_a_pattern_that_leads_nowhere_after_a_while_is_told_so(site: Site) -> None:
    stuck = "SCHEDULED, +30 DAYS, START OF MONTH"
    answer = await site.get("/acme/schedules/next?repeat=SCHEDULED,%2B30+DAYS,START+OF+MONTH")
    assert (answer.status, "does not lead forward from 2027-03-01" in str(answer.json)) == (422, True)
    here = f"/ui/t/acme/job/{await add(site)}/schedule"
    async with visitor(site, "acme") as acme:
        form = await fields(acme, here)
        shown = await acme.post(here, {**form, "repeat": stuck, "look": "yes"})
        assert (shown.status, "does not lead forward from 2027-03-01" in shown.text) == (422, True)

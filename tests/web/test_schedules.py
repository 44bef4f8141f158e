"""Jobs that repeat by the calendar: when they begin, and how they are changed."""

from datetime import UTC, datetime
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest

from store.base import Job
from tests.support.web import T0, Site
from vocabulary.zones import read_zones

ADD = "/acme/job/thumb/add"


@pytest.fixture(autouse=True)
def zones() -> None:
    """The daemon has read them, as it does a little after its start."""
    read_zones()


async def job_of(site: Site, job_id: str) -> Job:
    await site.intake.flush()
    record = await site.store.get_job("acme", job_id, now_ms=site.clock.now_ms())
    assert record is not None
    return record.job


async def test_a_cron_pattern_says_when_the_first_round_is(site: Site) -> None:
    now = datetime.fromtimestamp(T0 / 1000, ZoneInfo("Asia/Tokyo"))
    path = f"{ADD}?repeat={quote(f'{now.minute} {now.hour} * * * Asia/Tokyo')}"
    (tomorrow,) = await site.add("x", path=path)
    (now_and_then,) = await site.add("x", path=f"{path}&delay_s=5")
    assert (await job_of(site, tomorrow)).due_ms == T0 // 60_000 * 60_000 + 86_400_000
    assert (await job_of(site, now_and_then)).due_ms == T0 + 5000


async def test_a_schedule_that_is_posted_again_is_changed(site: Site) -> None:
    path, hour = f"{ADD}?unique=report&repeat=", datetime.fromtimestamp(T0 / 1000, UTC).hour
    (first,) = await site.add("x", path=path + quote(f"0 {(hour + 5) % 24} * * *"))
    (again,) = await site.add("x", path=path + quote(f"0 {(hour + 3) % 24} * * *"))
    assert first == again
    job = await job_of(site, first)
    assert (job.due_ms, job.repeat) == ((T0 // 3_600_000 + 3) * 3_600_000, f"0 {(hour + 3) % 24} * * *")


async def test_a_cron_pattern_that_cannot_be_is_refused_by_its_field(site: Site) -> None:
    answer = await site.post(ADD, json={"payload": "x", "repeat": "0 9 * * MON-FRI Europe/Atlantis"})
    assert answer.status == 422
    assert answer.json["error"]["detail"]["field"] == "repeat"
    assert "no time zone 'Europe/Atlantis'" in answer.json["error"]["message"]

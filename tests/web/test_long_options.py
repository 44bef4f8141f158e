"""Options that are too long for the header of a batch in the journal: taken as the docs say, all of a body or none."""

from typing import Any
from urllib.parse import quote

import pytest

from store.base import Job, JobFilter, JobState
from tests.support.web import Site
from tests.support.worker_calls import lease, post, report, take

ADD = "/acme/job/thumb/add"
NAME = "域" * 255


async def stored(site: Site, job_id: str) -> Job:
    await site.intake.flush()
    record = await site.store.get_job("acme", job_id, now_ms=site.clock.now_ms())
    assert record is not None
    return record.job


@pytest.mark.parametrize(
    "second",
    [
        {"options": {"a": "x" * 4000}},
        {"options": {"a": "x" * (16_384 - len('{"a":""}'))}},
        {"domain": NAME, "key": NAME},
    ],
)
async def test_long_options_are_taken_beside_short_ones(site: Site, second: dict[str, Any]) -> None:
    jobs = [{"payload": "1", "options": {"b": 1}}, {"payload": "2", **second}, {"payload": "3"}]
    answer = await site.post(ADD, json=jobs)
    assert answer.status == 200, answer.body[:300]
    first, long, last = answer.json["ids"]
    assert [(await stored(site, job_id)).data for job_id in (first, long, last)] == [b"1", b"2", b"3"]
    shown = (await site.get(f"/acme/job/{long}")).json
    assert {name: shown[name] for name in second} == second
    assert (await site.get(f"/acme/job/{first}")).json["options"] == {"b": 1}
    assert site.control.wakes > 0


async def test_options_beyond_the_limit_are_refused_and_no_job_is_added(site: Site) -> None:
    long = {"payload": "second", "options": {"a": "x" * 16_384}}
    answer = await site.post(ADD, json=[{"payload": "first"}, long])
    assert answer.status == 422, answer.body[:300]
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


async def test_lines_may_have_the_longest_names_and_come_after_those_before_them(site: Site) -> None:
    (before,) = await site.add("1", path=f"{ADD}?key={quote(NAME)}")
    flushes = site.intake.flushes
    ids = await site.add("2", "3", path=f"{ADD}?key={quote(NAME)}&domain={quote(NAME)}")
    assert site.intake.flushes == flushes + 1, "what the journal has of the same key reaches the store first"
    assert before < ids[0] < ids[1]
    assert [((job := await stored(site, job_id)).data, job.key, job.domain) for job_id in ids] == [
        (b"2", NAME, NAME),
        (b"3", NAME, NAME),
    ]
    too_large = await site.post(f"{ADD}?key={quote(NAME)}&domain={quote(NAME)}", data=b"x" * ((1 << 20) + 1))
    assert (too_large.status, too_large.code) == (413, "limit_exceeded")


async def test_new_jobs_of_a_run_may_have_the_longest_names(site: Site) -> None:
    await post(site, "1")
    (job,) = await take(site)
    made = [
        {"type": "thumb", "payload": "a"},
        {"type": "thumb", "payload": "b", "options": f"domain={NAME}&key={NAME}"},
    ]
    (verdict,) = (await report(site, {**lease(job), "outcome": "ok", "new_jobs": made}))["verdicts"]
    assert (verdict["answer"], verdict["code"]) == ("ok", "ok"), verdict
    await site.intake.flush()
    where = JobFilter(JobState.WAITING, "acme-thumb")
    page = await site.store.list_jobs("acme", where, now_ms=site.clock.now_ms(), limit=10)
    assert sorted((record.job.key, record.job.domain) for record in page.records) == [("", ""), (NAME, NAME)]

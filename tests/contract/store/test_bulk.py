"""Long batches of unlike jobs: back ends take the plain ones in bulk, and no job may notice."""

from itertools import cycle, islice

import pytest

from store.base import Archive, Code, Job, JobState, NewJob, Outcome, Rearm, Release, Retry, Store, Unclaim
from tests.support.jobs import JOBTYPE, LEASE_MS, OWNER, T0, TENANT, claim, ids, new_job, new_jobs, outcome
from tests.support.store_audit import check_counters, read_all

COUNT = 700  # more than one piece of any bulk statement, and no round number of pieces
BIG = b"b" * 5000

KINDS: list[dict[str, object]] = [
    {},
    {"options": '{"a": 1}'},
    {"priority": 1000},
    {"retry_after_ms": 5000},
    {"data": BIG},
    {"repeat": "daily", "domain": "d"},
    {"data": b"", "priority": 0},
]

OUTCOMES = [
    outcome(),
    outcome(result=b""),
    outcome(result=b"small", isolation="L3", handler_version=7),
    outcome(result=BIG),
    outcome(Code.FAILED, fingerprint="f", message="m", log=b"log"),
    outcome(Code.ABANDONED, log=b"\x00\xff"),
    outcome(started_ms=T0 + 5, duration_us=10**9),
]


def mixed_jobs() -> list[NewJob]:
    return [new_job(number, **kind) for number, kind in zip(range(COUNT), cycle(KINDS), strict=False)]


def mixed_release(job: Job, number: int, ended: Outcome) -> Release:
    if number % 11 == 3:
        return Retry(job.id, job.token, T0 + 50, outcome(Code.RETRY, log=b"again"))
    if number % 11 == 5:
        return Unclaim(job.id, job.token)
    if number % 11 == 7:
        return Rearm(job.id, job.token, T0 + 60, ended, data=b"next")
    return Archive(job.id, job.token, ended)


async def test_unlike_jobs_of_one_batch_come_back_as_they_were_given(store: Store) -> None:
    jobs = mixed_jobs()
    report = await store.add_jobs([*jobs, jobs[4], new_job(7, data=b"other")], now_ms=T0)
    assert (report.added, report.duplicates) == (COUNT, 2)
    claimed = await claim(store, limit=COUNT)
    expected = sorted(jobs, key=lambda job: (-job.priority, job.dt_ms, job.id))
    assert ids(claimed) == ids(expected)
    for job, given in zip(claimed, expected, strict=True):
        got = (job.data, job.options, job.repeat, job.domain, job.retry_after_ms)
        assert got == (given.data, given.options, given.repeat, given.domain, given.retry_after_ms)
        assert job.dt_ms - T0 == given.retry_after_ms or given.retry_after_ms is None
    await check_counters(store, TENANT, T0)


async def test_plain_jobs_come_back_whole_whatever_their_payloads_are(store: Store) -> None:
    payloads = [b"", b"\x00", b"a\x00b", b"\xff\xfe", bytes(range(256)), "é|, \n".encode(), b"", b"x" * 2048, b"y"]
    later = T0 + 10
    jobs = [
        new_job(number, data=data, dt_ms=later if number % 2 else T0, create_ms=T0 - number)
        for number, data in enumerate(payloads)
    ]
    await store.add_jobs(jobs, now_ms=T0)
    claimed = await claim(store, limit=100, now_ms=later)
    expected = sorted(jobs, key=lambda job: (job.dt_ms, job.id))
    assert claimed == [
        Job(job.id, JOBTYPE, job.data, later + LEASE_MS, OWNER, 1, 1, job.priority, job.dt_ms, job.create_ms)
        for job in expected
    ]
    await check_counters(store, TENANT, later)


@pytest.mark.parametrize("count", [1, 5, 13, 100, 385, 511, 512, 513])
async def test_batches_of_any_length_are_added_claimed_and_ended_whole(store: Store, count: int) -> None:
    jobs = new_jobs(count)
    assert (await store.add_jobs(jobs, now_ms=T0)).added == count
    claimed = await claim(store, limit=count)
    assert ids(claimed) == ids(jobs)
    report = await store.release_jobs(OWNER, [Archive(job.id, job.token, outcome()) for job in claimed], now_ms=T0)
    assert (report.applied, report.stale) == (count, ())
    records = await check_counters(store, TENANT, T0)
    assert [record.state for record in records.values()] == [JobState.ARCHIVED] * count


async def test_unlike_endings_of_one_batch_are_kept_each_for_its_job(store: Store) -> None:
    await store.add_jobs(mixed_jobs(), now_ms=T0)
    claimed = await claim(store, limit=COUNT)
    ended = dict(zip(ids(claimed), islice(cycle(OUTCOMES), COUNT), strict=True))
    releases = [mixed_release(job, number, ended[job.id]) for number, job in enumerate(claimed)]
    late = [release._replace(token=release.token + 1) for release in releases[::7]]
    on_time = [release for number, release in enumerate(releases) if number % 7]
    report = await store.release_jobs(OWNER, [*late, *on_time], now_ms=T0)
    assert (report.applied, report.stale) == (len(on_time), tuple(release.id for release in late))
    records = await read_all(store, TENANT, T0)
    logs_bytes = sum(len(release.outcome.log) for release in on_time if not isinstance(release, Unclaim))
    sizes_bytes = sum(record.data_bytes + record.result_bytes for record in records.values())
    assert (await store.get_usage(TENANT)).size_bytes == sizes_bytes + logs_bytes
    for release in on_time:
        record = await store.get_job(TENANT, release.id, now_ms=T0)
        assert record is not None
        if isinstance(release, Archive):
            assert (record.state, record.outcome, record.done_ms) == (JobState.ARCHIVED, release.outcome, T0)
        else:
            assert record.state == (JobState.WAITING if isinstance(release, Unclaim) else JobState.DEFERRED)
    assert {records[release.id].state for release in late} == {JobState.RUNNING}
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    counted = [release.outcome.code for release in on_time if not isinstance(release, Unclaim)]
    assert (counters.jobtype, counters.running, counters.ok, counters.failed, counters.retry) == (
        JOBTYPE,
        len(late),
        counted.count(Code.OK),
        counted.count(Code.FAILED),
        counted.count(Code.RETRY),
    )


@pytest.mark.parametrize("odd", ["big", "failed", "late", "replayed", "retry", "parent"])
async def test_one_unlike_ending_among_plain_ones(store: Store, odd: str) -> None:
    await store.add_jobs(new_jobs(9), now_ms=T0)
    if odd == "replayed":
        (first,) = await claim(store, 1)
        await store.release_jobs(OWNER, [Archive(first.id, first.token, outcome(result=BIG, log=b"log"))], now_ms=T0)
        await store.replay_jobs(TENANT, [first.id], dt_ms=T0, now_ms=T0)
    claimed = await claim(store)
    releases: list[Release] = [Archive(job.id, job.token, outcome(result=b"r")) for job in claimed]
    job = claimed[4]
    if odd == "big":
        releases[4] = Archive(job.id, job.token, outcome(result=BIG))
    elif odd == "failed":
        releases[4] = Archive(job.id, job.token, outcome(Code.FAILED, fingerprint="f", message="m"))
    elif odd == "late":
        releases[4] = Archive(job.id, job.token - 1, outcome())
    elif odd == "retry":
        releases[4] = Retry(job.id, job.token, T0 + 50, outcome(Code.RETRY))
    elif odd == "parent":
        await store.create_job(new_job(50, jobtype="acme-child", parent=job.id), now_ms=T0)
    report = await store.release_jobs(OWNER, releases, now_ms=T0 + 1)
    assert report.stale == ((job.id,) if odd == "late" else ())
    assert report.paused == ((job.id,) if odd == "parent" else ())
    states = {"late": JobState.RUNNING, "retry": JobState.DEFERRED, "parent": JobState.PAUSED}
    for number, release in enumerate(releases):
        record = await store.get_job(TENANT, release.id, now_ms=T0 + 1)
        assert record is not None
        assert record.state == (states.get(odd, JobState.ARCHIVED) if number == 4 else JobState.ARCHIVED)
        if isinstance(release, Archive) and (number != 4 or odd not in states):
            assert record.outcome == release.outcome
    await check_counters(store, TENANT, T0 + 1)


async def test_an_id_that_no_job_can_have_is_stale(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    (job,) = await claim(store)
    hostile = [Archive(f"{job.id}\x00", job.token, outcome()), Archive("", 1, outcome()), Archive("é", 1, outcome())]
    report = await store.release_jobs(OWNER, [*hostile, Archive(job.id, job.token, outcome())], now_ms=T0)
    assert (report.applied, report.stale) == (1, tuple(release.id for release in hostile))


async def test_a_replayed_job_has_lost_even_an_empty_result(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    (job,) = await claim(store)
    await store.release_jobs(OWNER, [Archive(job.id, job.token, outcome(result=b""))], now_ms=T0)
    await store.replay_jobs(TENANT, [job.id], dt_ms=T0, now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.outcome == outcome()

"""A deleted job whose line may be read again from a journal leaves its id, so that nothing adds the job again."""

import asyncio
from pathlib import Path

import pytest

from store.base import Archive, Code, JobState, JournalPosition, Store
from store.names import FORGOTTEN_AFTER_MS
from store.url import open_store
from store.values.positions import ANY, with_sources
from store.values.transfer import Part
from tests.support.jobs import (
    JOBTYPE,
    LEASE_MS,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    ids,
    job_id,
    new_job,
    new_jobs,
    outcome,
)
from tests.support.store_audit import check_counters
from tests.support.stores import BACK_ENDS

SOURCE = "a1"
"""In all ids of these tests."""


async def keep(store: Store, passed: str, *sources: str, reader: str = "j", segment: str = "1") -> None:
    """The position of a journal whose lines with greater ids were not read."""
    await store.add_jobs([], now_ms=T0, position=JournalPosition(reader, segment, 0, 0, passed, sources))


async def deleted(store: Store, *numbers: int, now_ms: int = T0) -> None:
    """Jobs that were there."""
    jobs = [new_job(number) for number in numbers]
    await store.add_ended_jobs(OWNER, jobs, [Archive(job.id, 1, outcome()) for job in jobs], now_ms=T0)
    assert await store.delete_jobs(TENANT, ids(jobs), now_ms=now_ms) == len(jobs)


async def come_back(store: Store, *numbers: int) -> set[int]:
    """Which of them a journal that is read again would add."""
    jobs = [new_job(number) for number in numbers]
    await store.add_jobs(jobs, now_ms=T0)
    states = await store.get_states(TENANT, ids(jobs), now_ms=T0)
    return {number for number, job in zip(numbers, jobs, strict=True) if job.id in states}


async def kept(store: Store) -> list[str]:
    return sorted(record.id for record in (await store.export(Part.DELETED)).records)  # type: ignore[union-attr]


async def expire(store: Store, now_ms: int = T0, limit: int = 1000) -> int:
    return await store.expire_records(now_ms=now_ms, audit_before_ms=0, limit=limit)


async def test_an_id_stays_while_its_line_may_be_read(store: Store) -> None:
    await keep(store, job_id(4), SOURCE)
    await deleted(store, 3, 4, 5, 6)
    assert await come_back(store, 3, 4, 5, 6) == {3, 4}
    assert await kept(store) == [job_id(5), job_id(6)]


async def test_only_of_those_who_write_to_the_journal(store: Store) -> None:
    await keep(store, "", "b2", "b3")
    await deleted(store, 1)
    assert await come_back(store, 1) == {1}


@pytest.mark.parametrize("count", [17, 16])
async def test_of_anybody_where_too_many_wrote(store: Store, count: int) -> None:
    sources: tuple[str, ...] = ()
    for number in range(count):
        sources = with_sources(sources, [f"b{number}"])
    await keep(store, "", *sources)
    await deleted(store, 1)
    assert await come_back(store, 1) == ({1} if count == 16 else set())


async def test_of_several_journals_the_one_that_is_furthest_behind_counts(store: Store) -> None:
    await keep(store, job_id(9), SOURCE, reader="i")
    await keep(store, job_id(2), ANY, reader="j")
    await keep(store, "", "b2", reader="k")
    await deleted(store, 2, 3)
    assert await come_back(store, 2, 3) == {2}


async def test_no_verb_adds_it(store: Store) -> None:
    await keep(store, "", SOURCE)
    await deleted(store, 1)
    job, end = new_job(1), Archive(job_id(1), 1, outcome(Code.FAILED))
    assert (await store.add_jobs([job, new_job(2)], now_ms=T0)) == (1, 1)
    assert (await store.add_running_jobs(OWNER, [job], lease_ms=LEASE_MS, now_ms=T0)).duplicates == 1
    assert (await store.add_ended_jobs(OWNER, [job], [end], now_ms=T0)).stale == (job.id,)
    assert (await store.create_job(job._replace(unique="u"), now_ms=T0)) == (job.id, False, JobState.ARCHIVED)
    assert [one.id for one in await claim(store)] == [job_id(2)]


async def test_no_reader_sees_it(store: Store) -> None:
    await keep(store, "", SOURCE)
    before = await store.get_usage(TENANT)
    await store.add_jobs([new_job(1, unique="", data=b"x" * 5000)], now_ms=T0)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [archive(job, Code.FAILED, result=b"y" * 5000, fingerprint="F")], now_ms=T0)
    assert await store.delete_jobs(TENANT, [job.id], now_ms=T0) == 1
    assert await store.delete_jobs(TENANT, [job.id], now_ms=T0) == 0
    assert await kept(store) == [job.id]
    assert await store.get_job(TENANT, job.id, now_ms=T0) is None
    assert await store.get_states(TENANT, [job.id], now_ms=T0) == {}
    assert await store.get_codes(TENANT, [job.id]) == {}
    assert (await store.export(Part.JOBS)).records == ()
    assert await store.get_usage(TENANT) == before
    assert await store.replay_jobs(TENANT, [job.id], dt_ms=T0, now_ms=T0) == ()
    assert await store.expire_locks(now_ms=T0 + LEASE_MS) == 0
    assert (await store.expire_jobs(now_ms=T0, done_before_ms=T0 + 1, waiting_before_ms=T0 + 1)) == (0, 0, False)
    assert not await check_counters(store, TENANT, T0)
    assert await kept(store) == [job.id]


async def test_it_goes_when_its_line_was_read(store: Store) -> None:
    await keep(store, "", SOURCE)
    await deleted(store, 1, 2, 3)
    assert await expire(store) == 0
    await keep(store, job_id(2), SOURCE)
    assert await expire(store) == 2
    assert await kept(store) == [job_id(3)]
    await keep(store, job_id(2))
    assert await expire(store) == 1
    assert await kept(store) == []
    assert await come_back(store, 3) == {3}


async def test_it_goes_when_its_journal_will_not_come_back(store: Store) -> None:
    await keep(store, "", SOURCE)
    await deleted(store, 1)
    await deleted(store, 2, now_ms=T0 + 1)
    await expire(store, T0 + FORGOTTEN_AFTER_MS)
    assert await kept(store) == [job_id(1), job_id(2)]
    await expire(store, T0 + FORGOTTEN_AFTER_MS + 1)
    assert await kept(store) == [job_id(2)]


async def test_they_go_in_steps(store: Store) -> None:
    await keep(store, "", ANY)
    await deleted(store, *range(5))
    await store.add_ended_jobs(OWNER, [new_job(9, id="other")], [Archive("other", 1, outcome())], now_ms=T0)
    await store.delete_jobs(TENANT, ["other"], now_ms=T0)
    assert len(await kept(store)) == 6
    await keep(store, "z", ANY)
    assert [await expire(store, limit=4) for _ in range(3)] == [4, 2, 0]


async def test_the_id_of_another_tenants_job_is_left_alone(store: Store) -> None:
    await keep(store, "", SOURCE)
    await store.add_jobs(new_jobs(1), now_ms=T0)
    await store.cancel_job(TENANT, job_id(0), now_ms=T0)
    assert await store.delete_jobs("other", [job_id(0)], now_ms=T0) == 0
    assert await kept(store) == []


async def test_a_job_that_is_purged_leaves_nothing(store: Store) -> None:
    await keep(store, "", SOURCE)
    await store.add_ended_jobs(OWNER, new_jobs(1), [Archive(job_id(0), 1, outcome())], now_ms=T0)
    await store.expire_jobs(now_ms=T0 + 1, done_before_ms=T0 + 1, waiting_before_ms=0)
    assert await kept(store) == []


async def test_a_position_does_not_go_back(store: Store) -> None:
    """Of two that are written at once, the later one may be faster."""
    for segment, passed, source in (("1", 3, "a1"), ("2", 5, "a1"), ("1", 4, "a1")):
        await keep(store, job_id(passed), source, segment=segment)
    assert await store.get_journal_position("j") == ("j", "2", 0, 0, job_id(5), ("a1",))
    await keep(store, job_id(5), "a1", segment="3")
    assert await store.get_journal_position("j") == ("j", "3", 0, 0, job_id(5), ("a1",))
    await keep(store, job_id(1), "b2", segment="1")  # in a journal that was begun anew
    assert await store.get_journal_position("j") == ("j", "1", 0, 0, job_id(1), ("b2",))


@pytest.mark.parametrize("target", [pytest.param(name, marks=pytest.mark.slow) for name in BACK_ENDS])
async def test_ids_move_with_the_store(store: Store, tmp_path: Path, target: str) -> None:
    await keep(store, job_id(1), SOURCE)
    await deleted(store, 1, 2)
    await asyncio.to_thread((tmp_path / "target").mkdir)
    async with (
        BACK_ENDS[target](tmp_path / "target") as url,
        open_store(url) as other,
    ):
        place = await other.begin_import("somewhere")
        for part in (Part.POSITIONS, Part.DELETED):
            page = await store.export(part)
            await other.import_records(part, page.records, after=place, now_ms=T0)
            await other.import_records(part, page.records, after=place, now_ms=T0)
        assert await kept(other) == [job_id(2)]
        assert await come_back(other, 1, 2) == {1}
        assert (await other.export(Part.JOBS)).records != ()
        assert {job.jobtype for job in await claim(other)} == {JOBTYPE}

"""Tenants with nothing in the backlog go past it; nothing is lost, added twice or put out of order by that."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from functory.intake.job_options import JobOptions
from journal import JournalUnavailable, Record
from store.errors import StoreUnavailable
from tests.support.intake import FLOOD, Straight, an_intake, stop
from tests.support.service import until
from vocabulary.clock import SystemClock
from vocabulary.names import tenant_of
from vocabulary.origin import Origin, origin_of


async def test_lines_that_come_one_by_one_gather_until_somebody_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.intake.journal_reader._GATHER_S", 1e6)
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        reader = asyncio.create_task(intake.reader.run())
        ids = await intake.backlog.write("acme-mail", [b"first"])
        await intake.reader.flush()
        ids += await intake.backlog.write("acme-mail", [b"one"] * 5)
        await intake.reader.flush()
        assert intake.added == ids
        for _ in range(20):
            ids += await intake.backlog.write("acme-mail", [b"x"])
        await intake.reader.flush()
        await stop(reader)
        assert intake.added == ids
        assert intake.steps == 3


async def test_lines_that_nobody_runs_gather_until_somebody_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.intake.journal_reader._PASS_BY_S", 1e6)
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        intake.backlog.use(Straight())
        reader = asyncio.create_task(intake.reader.run())
        ids = await intake.backlog.write("busy-mail", [b"x"])
        await intake.reader.flush()
        for _ in range(2):
            for _ in range(20):
                ids += await intake.backlog.write("idle-mail", [b"x"])
            await intake.reader.flush("idle")
            assert intake.added == ids
        await stop(reader)
        assert intake.steps == 3


@pytest.mark.parametrize(
    ("jobtype", "lines"),
    [("busy-mail", [b"x"]), ("idle-mail", [b"x"] * 500), ("idle-mail", [b"x" * 20_000])],
    ids=["may run", "many", "large"],
)
async def test_lines_that_may_run_or_are_many_or_large_are_not_kept_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobtype: str, lines: list[bytes]
) -> None:
    monkeypatch.setattr("functory.intake.journal_reader._PASS_BY_S", 1e6)
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        intake.backlog.use(Straight())
        intake.reader.when_added(lambda _: intake.passed.set())
        reader = asyncio.create_task(intake.reader.run())
        ids = await intake.backlog.write("idle-mail", [b"x"])
        ids += await intake.backlog.write(jobtype, lines)
        await intake.passed.wait()
        await stop(reader)
        assert intake.added == ids


async def test_a_quiet_tenant_does_not_wait_for_a_flood(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        flood = await intake.backlog.write("loud-x", FLOOD)
        (quiet,) = await intake.backlog.write("quiet-x", [b"me"])
        await intake.reader.flush("quiet")
        assert intake.added == [quiet]
        await intake.read_all()
        assert intake.added == [quiet, *flood], "each once: the reader left out what had gone past"


async def test_what_a_line_follows_comes_along_on_both_ways(tmp_path: Path) -> None:
    """And is no part of the payload, whose bytes are counted until the store has them."""
    async with an_intake(tmp_path) as intake:
        options = JobOptions(options='{"chain":1}')
        ids = await intake.backlog.write("loud-x", FLOOD)
        ids += await intake.backlog.write("loud-x", [b"late"], options, ["j1 a ok"])
        ids += await intake.backlog.write("quiet-x", [b"me", b"too"], options, ["j2 a failed", "j3 b ok"])
        assert intake.backlog.unstored("quiet").size_bytes == len(b"metoo")
        await intake.reader.flush("quiet")
        assert intake.added == ids[-2:], "they went past"
        await intake.read_all()
        assert [intake.backlog.unstored(tenant) for tenant in ("quiet", "loud")] == [(0, 0)] * 2
        found = {}
        for tenant, job_id in zip(("loud", "quiet", "quiet"), ids[-3:], strict=True):
            record = await intake.store.get_job(tenant, job_id, now_ms=SystemClock().now_ms())
            assert record is not None
            found[record.job.data] = origin_of(record.job.options)
        assert found == {
            b"late": Origin("j1", "a", "ok"),
            b"me": Origin("j2", "a", "failed"),
            b"too": Origin("j3", "b", "ok"),
        }


async def test_nobody_passes_when_there_is_nothing_to_pass(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        ids = await intake.backlog.write("acme-x", [b"1", b"2"])
        ids += await intake.backlog.write("quiet-x", [b"me"])
        assert intake.added == []
        await intake.read_all()
        assert intake.added == ids


async def test_the_lines_of_a_tenant_keep_their_order(tmp_path: Path) -> None:
    """Who has lines in the backlog waits behind them, and so does a second flood; indexed jobs are numbered by it."""
    async with an_intake(tmp_path) as intake:
        await intake.backlog.write("loud-x", FLOOD)
        await intake.backlog.write("loud-x", [b"one more"])
        await intake.backlog.write("quiet-x", [b"numbered"], JobOptions(indexed=True))
        await intake.backlog.write("quiet-x", [b"after it"])
        await intake.backlog.write("other-x", [b"x"] * 1001)
        assert intake.added == []
        await intake.read_all()
        assert intake.added == sorted(intake.added)
        assert len(intake.added) == 2004


async def test_what_went_past_is_forgotten_when_the_reader_has_come_by(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        for _ in range(3):  # a count that was left over would keep the tenant in line the next time
            await intake.backlog.write("loud-x", FLOOD)
            (quiet,) = await intake.backlog.write("quiet-x", [b"me"])
            await intake.reader.flush("quiet")
            assert intake.added[-1] == quiet
            await intake.read_all()


async def test_a_store_that_refuses_leaves_the_lines_to_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with an_intake(tmp_path) as intake:
        await intake.backlog.write("loud-x", FLOOD)
        real = intake.store.add_jobs

        async def away(*_args: Any, **_more: Any) -> None:
            raise StoreUnavailable("the store is away")

        monkeypatch.setattr(intake.store, "add_jobs", away)
        (quiet,) = await intake.backlog.write("quiet-x", [b"me"])
        await intake.backlog.landed("quiet")
        monkeypatch.setattr(intake.store, "add_jobs", real)
        assert intake.backlog.waits("quiet")
        await intake.read_all()
        assert intake.added[-1] == quiet
        assert len(intake.added) == len(set(intake.added)) == 1001


async def test_the_next_life_adds_again_what_had_gone_past_and_nothing_changes(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake:
        await intake.backlog.write("loud-x", FLOOD)
        (quiet,) = await intake.backlog.write("quiet-x", [b"me"])
        await intake.reader.flush("quiet")
    async with an_intake(tmp_path) as intake:
        (early,) = await intake.backlog.write("early-x", [b"nobody knows yet whose lines these are"])
        assert intake.backlog.waits("early")
        await intake.read_all()
        assert len(intake.added) == len(set(intake.added)) == 1002
        assert {quiet, early} <= set(intake.added)
        counters = await intake.store.get_counters("quiet", now_ms=SystemClock().now_ms())
        assert [row.waiting for row in counters] == [1]


async def test_what_was_not_started_in_time_goes_past_the_backlog(tmp_path: Path) -> None:
    """All slots were busy, so it leaves the straight way; that does not put it behind the lines of others."""
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight()
        intake.backlog.use(straight)
        flood = await intake.backlog.write("loud-x", FLOOD)
        quiet = await intake.backlog.write("quiet-x", [b"me", b"and me"])
        assert intake.added == []
        intake.reader.return_to_line(straight.jobs)
        await intake.reader.flush("quiet")
        assert intake.added == quiet
        await intake.read_all()
        assert intake.added == [*quiet, *flood]


async def test_none_goes_past_while_the_reader_has_earlier_ones_of_the_tenant_in_hand(tmp_path: Path) -> None:
    """A step of the reader may end in the middle of a request: its lines do not overtake each other."""
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight()
        intake.backlog.use(straight)
        quiet = await intake.backlog.write("quiet-x", [b"%d" % number for number in range(10)])
        await intake.backlog.write("loud-x", FLOOD)
        intake.backlog.read([Record(job_id, "quiet-x", b"", {}) for job_id in quiet[:5]])
        intake.backlog.return_to_line(straight.jobs, in_hand=quiet[:5])
        assert intake.backlog.waits("quiet")
        await intake.backlog.landed("quiet")
        assert intake.added == []


async def test_what_the_reader_has_in_hand_is_read_again_and_does_not_go_past(tmp_path: Path) -> None:
    """It would be added twice; if it had ended in between and was not to be kept, it would run twice."""
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight()
        intake.backlog.use(straight)
        (quiet,) = await intake.backlog.write("quiet-x", [b"me"])
        flood = await intake.backlog.write("loud-x", FLOOD)
        real = intake.store.add_jobs

        async def return_meanwhile(jobs: Any, **more: Any) -> Any:
            intake.reader.return_to_line(straight.jobs)
            straight.jobs = []
            return await real(jobs, **more)

        intake.store.add_jobs = return_meanwhile  # type: ignore[method-assign]
        await intake.read_all()
        await intake.backlog.landed("quiet")
        assert intake.added.count(quiet) == 1
        assert set(intake.added) == {quiet, *flood}


async def test_lines_count_as_unstored_until_the_store_has_them_whichever_way_they_go(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight()
        intake.backlog.use(straight)

        def unstored(*tenants: str) -> list[tuple[int, int]]:
            return [intake.backlog.unstored(tenant) for tenant in tenants]

        flood_bytes = sum(map(len, FLOOD))
        flood = asyncio.create_task(intake.backlog.write("loud-x", FLOOD))
        await asyncio.sleep(0)
        assert unstored("loud") == [(1000, flood_bytes)], "while they are written"
        await flood
        await intake.backlog.write("past-x", [b"1", b"22"])
        assert unstored("past") == [(2, 3)]
        ids = await intake.backlog.write("quiet-x", [b"1", b"22", b"333"])
        assert unstored("loud", "quiet", "other") == [(1000, flood_bytes), (3, 6), (0, 0)]
        await intake.reader.flush("past")
        intake.backlog.arrived(ids[:1])
        assert unstored("loud", "past", "quiet") == [(1000, flood_bytes), (0, 0), (2, 5)]
        intake.reader.return_to_line(straight.jobs)
        assert unstored("quiet") == [(2, 5)]
        await intake.read_all()
        assert unstored("loud", "past", "quiet") == [(0, 0)] * 3


async def test_what_is_read_again_counts_until_then(tmp_path: Path) -> None:
    async with an_intake(tmp_path) as intake, asyncio.timeout(30):
        straight = Straight()
        intake.backlog.use(straight)
        await intake.backlog.write("quiet-x", [b"1", b"22"])
        reader = asyncio.create_task(intake.reader.run())

        async def is_in_hand() -> bool:
            return any(open_.is_added for open_ in intake.reader._open_of.values())

        await until(is_in_hand)
        intake.reader.return_to_line(straight.jobs)
        assert intake.backlog.unstored("quiet") == (2, 3)
        await intake.reader.flush()
        await stop(reader)
        assert intake.backlog.unstored("quiet") == (0, 0)


@pytest.mark.parametrize("jobtype", ["loud-x", "quiet-x"], ids=["long way", "straight way"])
async def test_lines_that_the_journal_refused_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobtype: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with an_intake(tmp_path) as intake:
        intake.backlog.use(Straight())
        monkeypatch.setattr("journal.disk.os.pwrite", full)
        with pytest.raises(JournalUnavailable):
            await intake.backlog.write(jobtype, [b"1", b"22"])
        assert intake.backlog.unstored(tenant_of(jobtype)) == (0, 0)
        monkeypatch.undo()


async def test_what_could_not_go_past_counts_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_given: object, **_named: object) -> None:
        raise StoreUnavailable("away")

    async with an_intake(tmp_path) as intake:
        await intake.backlog.write("loud-x", FLOOD)
        with monkeypatch.context() as patched:
            patched.setattr(intake.store, "add_jobs", away)
            await intake.backlog.write("past-x", [b"1", b"22"])
            await intake.backlog.landed("past")
        assert intake.backlog.unstored("past") == (2, 3)
        await intake.read_all()
        assert intake.backlog.unstored("past") == (0, 0)

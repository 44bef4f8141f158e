"""The store is away for a while: nothing is lost, nothing runs twice to an outcome, everything goes on by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from functory.intake import journal_reader
from journal import BacklogFull, Journal
from store.base import Code, JobRecord, JobState
from store.errors import InvalidValue, StoreUnavailable
from tests.support.away_store import fail_until
from tests.support.clocks import LeapingClock
from tests.support.service import ended, register, running_daemon, until
from tests.support.straight import ready


async def test_intake_goes_on_while_the_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back = asyncio.Event()
    async with running_daemon(tmp_path, straight="off") as daemon:
        await register(daemon, "acme-x", "return None")
        failures = fail_until(daemon, monkeypatch, "add_jobs", back)
        ids = await daemon.journal.write("acme-x", ["a", "b"])
        await until(lambda: _count(failures))
        with pytest.raises(StoreUnavailable):
            await daemon.intake.flush()
        assert "store" in daemon.health().problems
        assert daemon.health().is_ready, "jobs are still taken in"
        ids += await daemon.journal.write("acme-x", ["c"])
        back.set()
        records = [await ended(daemon, id_) for id_ in ids]
        assert "store" not in daemon.health().problems
    assert [record.job.attempts for record in records] == [1, 1, 1]


async def test_a_line_that_was_long_in_the_journal_has_its_whole_retry_window(tmp_path: Path) -> None:
    async with Journal(tmp_path / "journal", "a7") as journal:
        (id_,) = await journal.write("acme-x", ["a"])
    clock = LeapingClock()
    clock.ahead_ms = 30 * 3_600_000
    async with running_daemon(tmp_path, clock, retry_window="24h", straight="off") as daemon:
        options = {"retry_base_ms": 3_600_000, "retry_max_ms": 3_600_000}
        await register(daemon, "acme-x", "raise ValueError('no')", options=options)

        async def has_run() -> JobRecord | None:
            record = await daemon.store.get_job("acme", id_, now_ms=clock.now_ms())
            return record if record is not None and record.outcome else None

        record = await until(has_run)
    assert record.outcome
    assert (record.state, record.outcome.code) == (JobState.DEFERRED, Code.ERROR)


async def test_a_backlog_at_its_limit_is_seen_in_health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back = asyncio.Event()
    async with running_daemon(tmp_path, journal_backlog="1KB", straight="off") as daemon:
        await register(daemon, "acme-x", "return None")
        failures = fail_until(daemon, monkeypatch, "add_jobs", back)
        (id_,) = await daemon.journal.write("acme-x", ["x" * 2000])
        await until(lambda: _count(failures))
        with pytest.raises(BacklogFull):
            await daemon.journal.write("acme-x", ["y"])
        assert not daemon.health().is_ready
        assert "max_backlog_bytes=1000" in daemon.health().problems["journal"]
        assert daemon.vitals.gauges()["journal_is_writable"] == 0
        back.set()
        await ended(daemon, id_)
        await until(lambda: _count([1] * daemon.health().is_ready))
        assert daemon.vitals.gauges()["journal_is_writable"] == 1


async def test_a_store_that_is_back_is_noticed_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it was away: that is part of serving again within five."""
    pauses: list[float] = []

    class Hasty:
        """asyncio without its patience."""

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        async def sleep(self, seconds: float) -> None:
            pauses.append(seconds)
            await asyncio.sleep(0)

    back = asyncio.Event()
    async with running_daemon(tmp_path, straight="off") as daemon:
        await register(daemon, "acme-x", "return None")
        fail_until(daemon, monkeypatch, "add_jobs", back)
        monkeypatch.setattr(journal_reader, "asyncio", Hasty())
        (id_,) = await daemon.journal.write("acme-x", ["a"])
        await until(lambda: _count(pauses[20:]))
        back.set()
        await ended(daemon, id_)
    assert pauses[0] < pauses[1], "a short absence is over sooner"
    assert max(pauses) <= 1


async def test_a_store_that_is_away_is_not_told_as_a_bad_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither for a job that the store does not have, nor for one that it has."""
    back = asyncio.Event()
    async with running_daemon(tmp_path, poll="10 s") as daemon:
        await ready(daemon)
        (first,) = await daemon.intake.write("acme-x", [b"1"])
        await ended(daemon, first)
        failures = fail_until(daemon, monkeypatch, "get_handler", back)
        daemon.executor.handlers._drop("acme-x")  # as if there were too many to keep
        (id_,) = await daemon.intake.write("acme-x", [b"2"])
        assert daemon.straight.is_here(id_)
        await until(lambda: _count(failures[1:]))  # it came back, and was tried again
        back.set()
        assert (await ended(daemon, id_)).job.attempts == 1
    assert "execute.store_unavailable" in caplog.messages
    assert "execute.handler_unreadable" not in caplog.messages


async def test_outcomes_wait_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back = asyncio.Event()
    async with running_daemon(tmp_path, straight="off") as daemon:
        await register(daemon, "acme-x", "print('J: y|made once'); return 'done'")
        failures = fail_until(daemon, monkeypatch, "release_jobs", back)
        (id_,) = await daemon.journal.write("acme-x", ["a"])
        await until(lambda: _count(failures))
        back.set()
        record = await ended(daemon, id_)
        await daemon.intake.flush()
        counters = {row.jobtype: row for row in await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())}
    assert record.outcome
    assert (record.outcome.code, record.outcome.result) == (Code.OK, b'"done"')
    assert counters["acme-x"].ok == 1
    assert counters["acme-y"].waiting == 1, "the job that it made was written once"


async def test_a_line_that_the_store_refuses_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return None")
        real = daemon.store.add_jobs

        async def refuse(jobs: Any, **kwargs: Any) -> Any:
            if any(job.data == b"bad" for job in jobs):
                raise InvalidValue("this one will never do")
            return await real(jobs, **kwargs)

        monkeypatch.setattr(daemon.store, "add_jobs", refuse)
        good, bad, other = await daemon.journal.write("acme-x", ["good", "bad", "other"])
        for id_ in (good, other):
            await ended(daemon, id_)
        await daemon.intake.flush()
        rejected = await asyncio.to_thread((tmp_path / "rejected.jsonl").read_text)
    assert bad in rejected
    assert "this one will never do" in rejected
    assert good not in rejected


async def _count(failures: list[Any]) -> int:
    return len(failures)

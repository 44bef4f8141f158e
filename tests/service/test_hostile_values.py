"""No value that came from a tenant ends a loop of the daemon, also if its neighbours forgot to refuse it.

Each loop is fed what the one before it should have stopped. What cannot be written becomes the outcome of the job that
it came from; everybody else's work goes on, and the daemon is there at the end.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.intake.job_options import PLAIN
from runner.launch import Level
from runner.outcome import Stopped
from store.base import Archive, Code, Job, JobRecord, NewHandler, Outcome, Retry, Tenant
from store.names import MAX_RESULT_BYTES
from tests.support.service import ended, register, running_daemon, until
from vocabulary.new_job import NewJob as WantedJob

MIB = 1 << 20


async def claimed(daemon: Daemon, *payloads: str, jobtype: str = "acme-x") -> list[Job]:
    """Jobs that this daemon holds, though no loop of it knows of them."""
    await daemon.journal.write(jobtype, list(payloads))
    await daemon.intake.flush()
    return await daemon.store.claim_jobs(
        jobtype, len(payloads), owner=daemon.sysid, lease_ms=30_000, now_ms=daemon.clock.now_ms()
    )


async def record_of(daemon: Daemon, job: Job) -> JobRecord:
    async with asyncio.timeout(10):
        await daemon.outbox.empty()
    record = await daemon.store.get_job("acme", job.id, now_ms=daemon.clock.now_ms())
    assert record is not None
    return record


def ok(job: Job, **changes: Any) -> Archive:
    return Archive(job.id, job.token, Outcome(Code.OK, 200, 0)._replace(**changes))


# Outbox


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ([WantedJob("y", b"a" * (MIB + 60_000))], b"max_payload_bytes"),
        ([WantedJob("y", b"fine"), WantedJob("y", b"a" * (MIB + 1))], b"max_payload_bytes"),
        ([WantedJob("a|b\n", b"fine")], b"jobtype"),
        ([WantedJob("z" * 200, b"fine")], b"jobtype"),
        ([WantedJob("y", b"x")] * 100_001, b"max_batch_lines"),
    ],
    ids=["long", "one of two", "name", "long name", "many"],
)
async def test_new_jobs_that_the_journal_refuses(tmp_path: Path, wanted: list[WantedJob], reason: bytes) -> None:
    async with running_daemon(tmp_path) as daemon:
        bad, good = await claimed(daemon, "bad", "good")
        daemon.outbox.put([(bad, ok(bad), tuple(wanted)), (good, ok(good), (WantedJob("y", b"child"),))])
        refused, kept = await record_of(daemon, bad), await record_of(daemon, good)
        await daemon.intake.flush()
        waiting = await daemon.store.get_waiting_jobtypes(now_ms=daemon.clock.now_ms())
    assert refused.outcome
    assert (refused.outcome.code, refused.outcome.exitcode) == (Code.FAILED, 413)
    assert reason in (refused.outcome.result or b"")
    assert reason.decode() in refused.outcome.message
    assert kept.outcome
    assert kept.outcome.code == Code.OK
    assert {(each.jobtype, each.waiting) for each in waiting} == {("acme-y", 1)}, "all of a job's new jobs, or none"


@pytest.mark.parametrize(
    "change",
    [
        {"result": b"r" * (MAX_RESULT_BYTES + 1)},
        {"log": b"l" * (MIB)},
        {"exitcode": 70_000},
        {"duration_us": -1},
        {"started_ms": 1 << 70},
        {"message": "\ud800"},
        {"message": "m" * MIB},
        {"fingerprint": "\n"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_an_outcome_that_the_store_refuses(tmp_path: Path, change: dict[str, Any]) -> None:
    async with running_daemon(tmp_path) as daemon:
        bad, again, good = await claimed(daemon, "bad", "again", "good")
        retry = Retry(again.id, again.token, 1 << 70, Outcome(Code.RETRY, 100, 0)._replace(**change))
        daemon.outbox.put([(bad, ok(bad, **change), ()), (again, retry, ()), (good, ok(good), ())])
        for job in (bad, again):
            refused = await record_of(daemon, job)
            assert refused.outcome
            assert (refused.outcome.code, refused.outcome.exitcode) == (Code.FAILED, 413)
            assert refused.outcome.message
        kept = await record_of(daemon, good)
        assert kept.outcome
        assert kept.outcome.code == Code.OK


async def test_an_ending_that_cannot_be_recorded_at_all_is_left_to_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path) as daemon:
        bad, good = await claimed(daemon, "bad", "good")
        release_jobs = daemon.store.release_jobs

        async def refuse_bad(owner: str, releases: Sequence[Archive], *, now_ms: int) -> object:
            if bad.id in {release.id for release in releases}:
                raise ValueError("never")
            return await release_jobs(owner, releases, now_ms=now_ms)

        monkeypatch.setattr(daemon.store, "release_jobs", refuse_bad)
        daemon.outbox.put([(bad, ok(bad), ()), (good, ok(good), ())])
        kept = await record_of(daemon, good)
        assert kept.outcome
        assert kept.outcome.code == Code.OK
        assert daemon.gauges()["outcomes_refused_total"] == 1


# Journal reader and backlog

BAD_ATTRIBUTES: Sequence[dict[str, str]] = [
    {"dt": "tomorrow"},
    {"dt": "9" * 2000},
    {"dt": "-1"},
    {"priority": "77"},
    {"priority": "9" * 40},
    {"retry_after": "0"},
    {"retry_after": "9" * 40},
    {"domain": "a\nb"},
    {"repeat": "\ud800"},
]


async def test_lines_that_the_store_refuses(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        for attributes in BAD_ATTRIBUTES:
            await daemon.journal.write("acme-x", ["bad"], attributes)
        (good,) = await daemon.journal.write("acme-x", ["good"])
        async with asyncio.timeout(10):
            await daemon.intake.flush()
        assert await daemon.store.get_job("acme", good, now_ms=daemon.clock.now_ms())
    aside = [json.loads(line) for line in await _aside(tmp_path)]
    assert [line["attributes"] for line in aside] == [dict(each) for each in BAD_ATTRIBUTES]


async def test_a_line_that_cannot_even_be_set_aside_stays_in_the_journal(tmp_path: Path) -> None:
    in_the_way = tmp_path / "rejected.jsonl"
    await asyncio.to_thread(in_the_way.mkdir)
    async with running_daemon(tmp_path) as daemon:
        await daemon.journal.write("acme-x", ["bad"], {"priority": "77"})
        await until(lambda: _trouble(daemon))
        await asyncio.to_thread(in_the_way.rmdir)
        (good,) = await daemon.journal.write("acme-x", ["good"])
        await until(lambda: daemon.store.get_job("acme", good, now_ms=daemon.clock.now_ms()))
    assert len(await _aside(tmp_path)) == 1


async def _aside(data_dir: Path) -> list[str]:
    return (await asyncio.to_thread((data_dir / "rejected.jsonl").read_text)).splitlines()


async def _trouble(daemon: Daemon) -> bool:
    return bool(daemon.intake.trouble)


async def test_the_way_past_a_backlog_carries_lines_that_the_store_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.intake.backlog._WORTH_IT", 0)
    async with running_daemon(tmp_path) as daemon:
        await until(lambda: _knows_all(daemon))
        await daemon.intake.write("acme-x", [b"bad"], PLAIN._replace(priority=77))
        await daemon.intake.write("other-x", [b"bad"], PLAIN._replace(domain="a\nb"))
        (good,) = await daemon.intake.write("third-x", [b"good"])
        async with asyncio.timeout(10):
            await daemon.intake.flush()
        assert await daemon.store.get_job("third", good, now_ms=daemon.clock.now_ms())


async def _knows_all(daemon: Daemon) -> bool:
    return daemon.intake._backlog._knows_all


# Execute


HOSTILE_STOPS = [
    {"code": "no such word"},
    {"exitcode": -1},
    {"exitcode": 1 << 70},
    {"duration_ms": float("nan")},
    {"duration_ms": float("inf")},
    {"duration_ms": -1e30},
    {"result": b"\xff" * 9000},
    {"log": b"x" * (1 << 20)},
    {"code": "retry", "exitcode": 100, "retry_after_ms": 1 << 80},
    {"code": "error", "exitcode": 500, "retry_after_ms": -(1 << 80)},
]


@pytest.mark.parametrize("change", HOSTILE_STOPS, ids="-".join)
async def test_a_stop_that_the_runner_should_not_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    async with running_daemon(tmp_path, max_attempts="2") as daemon:

        async def run_jobs(
            _type: str, jobs: Sequence[Job], _handler: object, on_stopped: Any, *_: object, **__: object
        ) -> None:
            stops = [Stopped(job.id, "ok", 200, b"", b"", 1.0, (), Level.L0) for job in jobs]
            on_stopped([stop._replace(**change) if stop.id == bad else stop for stop in stops])

        monkeypatch.setattr(daemon._parts.runner, "run_jobs", run_jobs)
        bad, good = await daemon.journal.write("acme-x", ["bad", "good"])
        await register(daemon, "acme-x", "return None")
        assert (await ended(daemon, good)).outcome
        assert (await ended(daemon, bad)).outcome
        await daemon.outbox.empty()
        assert len(daemon.executor.leases) == 0


@pytest.mark.parametrize(
    "document",
    [
        b"not json",
        b"[1]",
        b'{"lang":"python"}',
        b'{"lang":"python","body":"x","options":{"retry_base_ms":-1}}',
        b'{"lang":"python","body":"x","options":{"max_attempts":"many"}}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=["text", "list", "no body", "negative", "word", "bytes", "deep"],
)
async def test_a_handler_that_should_not_be_stored(tmp_path: Path, document: bytes) -> None:
    async with running_daemon(tmp_path, stuck="40ms") as daemon:
        now_ms = daemon.clock.now_ms()
        await daemon.store.set_handler("acme", NewHandler("acme-bad", "python", document, now_ms))
        (bad,) = await daemon.journal.write("acme-bad", ["x"])
        await daemon.executor.recycle("acme-bad")
        await register(daemon, "acme-good", "return None")
        (good,) = await daemon.journal.write("acme-good", ["x"])
        await ended(daemon, good)
        record = await daemon.store.get_job("acme", bad, now_ms=daemon.clock.now_ms())
        assert record
        assert record.outcome is None
        await daemon.outbox.empty()  # it hears of an end a moment after the store has it
        assert len(daemon.executor.leases) == 0, "and nothing is held that does not run"


# Upkeep


@pytest.mark.parametrize("limits", ["not json", "[]", '{"max_running": -1}', '{"max_jobs": "x"}', "[" * 60_000])
async def test_limits_that_cannot_be_read(tmp_path: Path, limits: str) -> None:
    async with running_daemon(tmp_path) as daemon:
        await daemon.store.create_tenant(Tenant("acme", 0, 1, limits))
        await daemon.executor.refresh_tenants()
        await register(daemon, "acme-x", "return None")
        (good,) = await daemon.journal.write("acme-x", ["x"])
        await ended(daemon, good)


async def test_every_duty_of_upkeep_survives_such_a_store(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, stuck="20ms") as daemon:
        now_ms = daemon.clock.now_ms()
        await daemon.store.set_handler("acme", NewHandler("acme-bad", "python", b"not json", now_ms))
        await daemon.journal.write("acme-bad", ["x"])
        await daemon.intake.flush()
        upkeep = daemon.upkeep
        for duty in (
            upkeep.renew_leases,
            upkeep.renew_sysid,
            upkeep.expire_leases,
            upkeep.purge,
            upkeep.watch_progress,
            upkeep.measure_disk,
        ):
            await duty()

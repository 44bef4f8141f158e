"""A consumer whose jobs have children: an index is over when its job is, and not when a run of it has ended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.consumers.led_consumer import LedConsumer
from functory.consumers.terms import Terms
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.job_options import JobOptions
from functory.operations import consumers
from functory.operations.principal import Principal
from functory.tenant_limits import TenantLimits
from store.base import (
    Archive,
    Code,
    Discard,
    Finish,
    IndexEnd,
    Job,
    JobRecord,
    JobState,
    Outcome,
    Release,
    ReleaseReport,
    Retry,
    WindowMove,
    WindowReport,
)
from tests.support.polling import until
from tests.support.service import register, running_daemon

WHO = Principal("test", "acme", frozenset({"manage", "read", "submit"}), TenantLimits())
PARENT = "if not ctx.children:\n    ctx.enqueue('piece', payload, child=True)\nreturn payload"


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with running_daemon(tmp_path) as running:
        yield running


async def put(daemon: Daemon, payloads: list[bytes]) -> None:
    """A consumer that works on one index at a time, and jobs for it."""
    await consumers.put_consumer(service_of(daemon), WHO, "verify", "block", Terms(max_processing=1), None)
    await daemon.intake.write("acme-block", payloads, JobOptions())


async def read(daemon: Daemon, seq: int) -> JobRecord | None:
    return await daemon.store.get_job_at("acme", "acme-block", seq, now_ms=daemon.clock.now_ms())


async def test_the_next_index_starts_when_the_children_of_the_last_have_ended(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[WindowMove] = []
    move_window = daemon.store.move_window

    async def seen(move: WindowMove, *, now_ms: int) -> WindowReport:
        report = await move_window(move, now_ms=now_ms)
        assert report.processed >= move.processed, "the leader is out of step"
        moves.append(move)
        return report

    monkeypatch.setattr(daemon.store, "move_window", seen)
    await register(daemon, "acme-block", PARENT)
    await put(daemon, [b"1", b"2", b"3"])

    async def is_parent() -> bool:
        record = await read(daemon, 1)
        return record is not None and record.state is JobState.PAUSED and record.pending_children == 1

    await until(is_parent)
    await daemon.outbox.empty()
    before = len(moves)

    async def has_looked() -> bool:
        assert daemon.consumers.check("acme", "verify")
        return len(moves) > before + 1

    await until(has_looked)
    assert {(move.processed, move.released) for move in moves[before:]} == {(0, 1)}
    assert [record.job.token for seq in (2, 3) if (record := await read(daemon, seq))] == [0, 0]
    await register(daemon, "acme-piece", "return payload")

    async def is_done() -> bool:
        return (await daemon.store.get_index_state("acme", "acme-block")).processed == 3

    await until(is_done)
    assert all(move.released <= move.processed + 1 for move in moves)


async def test_a_leader_hears_of_every_end_and_of_nothing_else(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[IndexEnd] = []
    await put(daemon, [b"1"])

    async def is_led() -> bool:
        return daemon.consumers.check("acme", "verify")

    await until(is_led)
    await daemon.intake.flush()
    held = await read(daemon, 1)
    assert held is not None
    monkeypatch.setattr(LedConsumer, "ended", lambda _, end: ends.append(end))
    outcome = Outcome(Code.OK, 200, 0)

    def record(release: Release, job: Job = held.job, *, stale: bool = False, paused: bool = False) -> int:
        """How many ends the leader has heard of."""
        report = ReleaseReport(1, (job.id,) if stale else (), (job.id,) if paused else ())
        daemon.consumers.recorded([(job, release, ())], report)
        heard = len(ends)
        ends.clear()
        return heard

    over: list[Release] = [Archive("a", 1, outcome), Finish("a", 1, outcome, b""), Discard("a", 1, outcome)]
    for release in over:
        assert record(release) == 1
        assert record(release, stale=True) == 0
        assert record(release, paused=True) == 0
        assert record(release, held.job._replace(seq=None)) == 0
    assert record(Retry("a", 1, 0, outcome)) == 0

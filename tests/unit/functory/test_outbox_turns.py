"""Outcomes of one tenant do not wait for those of another, and a tenant with too many of them waits for its own."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from functory.execution.endings import Ending
from functory.execution.outbox import Outbox
from functory.loops.courtesy import LONG_STEP
from store.base import Archive, Code, Job, Outcome, ReleaseReport
from tests.support.service import running_daemon


def endings(jobtype: str, count: int) -> list[Ending]:
    found: list[Ending] = []
    for number in range(count):
        job = Job(f"20261114T235959123Z-a7-{number:06x}", jobtype, b"", 0, "a7", 1, 1, 500, 0, 0)
        found.append((job, Archive(job.id, 1, Outcome(Code.OK, 200, 0)), ()))
    return found


class Gate:
    """A store that records releases one batch at a time, when it is told to."""

    def __init__(self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[int] = []
        self.asked = asyncio.Event()
        self.may = asyncio.Semaphore(0)
        monkeypatch.setattr(outbox._store, "release_jobs", self.release_jobs)

    async def release_jobs(self, _owner: str, releases: list[Any], *, now_ms: int) -> Any:
        self.batches.append(len(releases))
        self.asked.set()
        await self.may.acquire()
        return ReleaseReport(len(releases), (), ())


async def test_one_outcome_does_not_wait_for_thousands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        outbox = daemon.outbox
        heard: list[str] = []
        quiet_is_recorded = asyncio.Event()

        def on_released(batch: Sequence[Ending]) -> None:
            heard.extend(job.jobtype for job, _, _ in batch)
            if "quiet-x" in heard:
                quiet_is_recorded.set()

        monkeypatch.setattr(outbox, "_listeners", [on_released])
        gate = Gate(outbox, monkeypatch)
        outbox.put(endings("loud-x", 3 * LONG_STEP))
        await gate.asked.wait()
        outbox.put(endings("quiet-x", 1))
        room = asyncio.create_task(outbox.room("loud"))
        await outbox.room("quiet")
        gate.may.release()
        gate.may.release()
        await quiet_is_recorded.wait()
        assert len(heard) <= LONG_STEP + 1, "it did not wait for the others in line"
        assert not room.done(), "the slots of the loud tenant wait meanwhile"
        for _ in range(20):
            gate.may.release()
        await outbox.empty()
        await room
        assert len(heard) == 3 * LONG_STEP + 1
        assert sum(gate.batches) == 3 * LONG_STEP + 1

"""The disk does not give lines back that were acknowledged: they wait, and the daemon and all else go on."""

import errno
import os
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from journal import Journal
from journal.format import Frame
from journal.segment import Damage, FrameReader
from store.base import Code
from store.errors import StoreUnavailable
from tests.support.service import ended, register, running_daemon, until


class BadSector(FrameReader):
    """Reads nothing while the disk is bad."""

    is_bad = True

    def next(self) -> Frame | Damage | None:
        if self.is_bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().next()


@pytest.fixture
def bad_sector(monkeypatch: pytest.MonkeyPatch) -> type[BadSector]:
    """Under lines that are read from disk; recovery has its own reader."""
    monkeypatch.setattr("journal.lines.FrameReader", BadSector)
    monkeypatch.setattr(BadSector, "is_bad", True)
    return BadSector


async def is_unreadable(daemon: Daemon) -> bool:
    return "unreadable_lines" in daemon.health().problems


async def is_well(daemon: Daemon) -> bool:
    return not daemon.health().problems.keys() & {"unreadable_lines", "journal", "store"}


async def test_lines_that_cannot_be_read_wait_and_the_daemon_goes_on(
    tmp_path: Path, bad_sector: type[BadSector]
) -> None:
    async with Journal(tmp_path / "journal", "a7") as journal:
        (id_,) = await journal.write("acme-x", ["a"])
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return None")
        await until(lambda: is_unreadable(daemon))
        health = daemon.health()
        assert "Input/output error" in health.problems["unreadable_lines"]
        assert not health.problems.keys() & {"journal", "store"}
        assert health.is_live
        assert health.is_ready, "jobs are still taken in"
        with pytest.raises(StoreUnavailable, match="Input/output error"):
            await daemon.intake.flush()
        (later,) = await daemon.intake.write("other-x", [b"b"])
        bad_sector.is_bad = False
        record = await ended(daemon, id_)
        assert record.outcome
        assert (record.outcome.code, record.job.attempts) == (Code.OK, 1)
        await daemon.intake.flush()
        assert await daemon.store.get_job("other", later, now_ms=daemon.clock.now_ms())
        await until(lambda: is_well(daemon))

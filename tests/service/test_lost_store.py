"""The file of the store disappears under a running daemon: it says so, keeps new jobs in the journal and loses none."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from store.errors import StoreLost, StoreUnavailable
from tests.support.polling import until
from tests.support.service import ended, register, running_daemon


async def test_jobs_stay_in_the_journal_while_the_file_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return payload")
        path = Path(urlsplit(daemon.settings.store_url).path)
        await asyncio.to_thread(path.rename, tmp_path / "moved.db")

        async def is_ready() -> bool:
            return daemon.health().is_ready

        async def is_lost() -> bool:
            return not await is_ready()

        await until(is_lost)
        assert "was removed or replaced" in daemon.health().problems["store"]
        (job_id,) = await daemon.journal.write("acme-x", ["a"])
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            await daemon.intake.flush()
        with pytest.raises(StoreLost):
            await daemon.store.expire_locks(now_ms=daemon.clock.now_ms())
        await asyncio.to_thread((tmp_path / "moved.db").rename, path)
        assert (await ended(daemon, job_id)).job.attempts == 1
        await until(is_ready)
    assert [record.message for record in caplog.records].count("upkeep.store_lost") == 1

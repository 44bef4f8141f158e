"""`functory health`, the status port and the numbers of a daemon that has trouble: as supervisors see them."""

from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from store.errors import StoreUnavailable
from tests.support.command_line import functory
from tests.support.daemon_process import daemon, free_port
from tests.support.service import running_daemon, until


@pytest.mark.slow
async def test_health_of_a_daemon_that_only_runs_jobs(tmp_path: Path) -> None:
    """It takes no requests, but probes and scrapers must reach it all the same."""
    port = free_port()
    async with daemon(tmp_path / "data", role="run", status_port=str(port)) as server:
        answered = await functory("health", "--url", f"http://127.0.0.1:{port}")
        assert (answered.status, answered.out) == (0, "ok\n")
        assert (await functory("health", "--live", "--url", f"http://127.0.0.1:{port}")).status == 0
        server.url = f"http://127.0.0.1:{port}"
        assert await server.metric("slots_free") > 0
        assert await server.metric("sysid_remaining_seconds") > 0
        assert await server.metric("journal_disk_free_bytes") > 0
        assert await server.stop() == 0
    gone = await functory("health", "--url", f"http://127.0.0.1:{port}")
    assert gone.status not in (0, 1)
    assert "cannot be reached" in gone.err


async def test_an_idle_daemon_notices_that_the_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as running:
        assert running.gauges()["store_is_available"] == 1

        async def away(*_: object, **__: object) -> int:
            raise StoreUnavailable("no server")

        with monkeypatch.context() as patch:
            patch.setattr(running.store, "expire_locks", away)
            await until(lambda: _has(running.gauges(), "store_is_available", 0))
            assert running.health().problems["store"] == "no server"
        await until(lambda: _has(running.gauges(), "store_is_available", 1))


async def test_the_lag_is_the_age_of_the_oldest_line_that_is_not_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path) as running:

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("no server")

        with monkeypatch.context() as patch:
            patch.setattr(running.store, "add_jobs", away)
            await running.journal.write("acme-x", ["x"])
            await until(lambda: _lags(running))
            later_ms = running.clock.now_ms() + 60_000
            assert running.intake.lag_ms(later_ms) >= 60_000
        await until(lambda: _has(running.gauges(), "journal_lag_seconds", 0))


async def _has(gauges: dict[str, float], name: str, value: float) -> bool:
    return gauges[name] == value


async def _lags(running: Daemon) -> bool:
    return running.gauges()["journal_lag_seconds"] > 0

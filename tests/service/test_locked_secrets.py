"""A daemon that lacks the key of a secret leaves the jobs that need it to others, and costs them no attempt."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations.why import why
from functory.vault.key_file import new_key_line
from functory.vault.place import key_place
from functory.vault.vault import KeyPlace, Vault
from runner.errors import SecretsLockedError
from store.base import Code, JobState, Secret
from tests.support.service import ended, register, running_daemon, until


async def key_file(path: Path, *lines: str) -> KeyPlace:
    await asyncio.to_thread(path.write_text, "\n".join(lines) + "\n")
    return KeyPlace(path)


async def has_left_it(daemon: Daemon) -> bool:
    executor = daemon.executor
    return "acme-x" in executor._outlook.unable and not executor._slots and not executor.leases


@pytest.mark.parametrize("straight", ["on", "off"])
async def test_jobs_wait_for_a_daemon_that_has_the_key(tmp_path: Path, straight: str) -> None:
    """As while the key is rotated: this daemon was not restarted yet, and another seals with the new one."""
    old, new = new_key_line(), new_key_line()
    place = await key_file(tmp_path / "old", old)
    async with running_daemon(tmp_path / "a", secrets_key_file=str(place.path), straight=straight) as daemon:
        ahead = Vault(daemon.store, await key_file(tmp_path / "both", new, old))
        await ahead.put(Secret("acme", "API_KEY", 1, 1000, "key1", "", b""), "correct horse")
        await register(daemon, "acme-x", "return str(len(ctx.secrets['API_KEY']))", secrets=["API_KEY"])
        (job_id,) = await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: has_left_it(daemon))
        await daemon.intake.flush()
        record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
        assert record is not None
        assert (record.state, record.job.attempts) == (JobState.WAITING, 0)
        reason = await why(replace(service_of(daemon), vault=daemon.vault), "acme", job_id)
        assert reason.reason == "secrets_locked"
        assert "API_KEY" in daemon.health().problems["secrets"]
        handler = await daemon.handlers.get("acme-x")
        assert handler is not None
        with pytest.raises(SecretsLockedError, match="which this daemon does not have"):
            await daemon.trial_runs.invoke("acme-x", handler, b"1")
        await Vault(daemon.store, await key_file(tmp_path / "back", old, new)).rekey()
        await daemon.vault.look()
        record = await ended(daemon, job_id)
        assert record.outcome is not None
        assert (record.outcome.code, record.outcome.result, record.job.attempts) == (Code.OK, b'"13"', 1)
        assert "secrets" not in daemon.health().problems


async def test_health_tells_of_secrets_that_were_sealed_with_a_new_key_too_early(tmp_path: Path) -> None:
    """The daemon has opened them before, and its jobs still get them from memory: only a restart would show it."""
    old, new = new_key_line(), new_key_line()
    place = await key_file(tmp_path / "old", old)
    async with running_daemon(tmp_path / "a", secrets_key_file=str(place.path)) as daemon:
        await daemon.vault.put(Secret("acme", "API_KEY", 1, 1000, "key1", "", b""), "correct horse")
        await daemon.vault.read("acme", ("API_KEY",))
        await daemon.vault.look()
        assert "secrets" not in daemon.health().problems
        await Vault(daemon.store, await key_file(tmp_path / "both", new, old)).rekey()
        await daemon.vault.look()
        assert new.split()[0] in daemon.health().problems["secrets"]


@pytest.mark.parametrize("how", ["invoke", "set"])
async def test_jobs_go_on_when_the_key_file_is_put_back(tmp_path: Path, how: str) -> None:
    """Whoever is first to need the key reads it: here a tenant, before the daemon has looked for it again."""
    blank = Secret("acme", "API_KEY", 1, 1000, "key1", "", b"")
    async with running_daemon(tmp_path / "a") as daemon:
        await daemon.vault.put(blank, "correct horse")
        await register(daemon, "acme-x", "return str(len(ctx.secrets['API_KEY']))", secrets=["API_KEY"])
        path = key_place(daemon.settings).path
    assert path is not None
    await asyncio.to_thread(path.rename, tmp_path / "copy")
    async with running_daemon(tmp_path / "a") as daemon:
        (job_id,) = await daemon.intake.write("acme-x", [b"1"])
        await until(lambda: has_left_it(daemon))
        assert "is gone" in daemon.health().problems["secrets"]
        await asyncio.to_thread((tmp_path / "copy").rename, path)
        if how == "invoke":
            handler = await daemon.handlers.get("acme-x")
            assert handler is not None
            await daemon.trial_runs.invoke("acme-x", handler, b"1")
        else:
            await daemon.vault.put(blank._replace(name="OTHER"), "battery staple")
        record = await ended(daemon, job_id)
        assert record.outcome is not None
        assert record.outcome.result == b'"13"'
        assert "secrets" not in daemon.health().problems

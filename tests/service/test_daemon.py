"""The daemon as a whole: roles, a part that dies, work that nobody touches, and what it tells about itself."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from functory.config import load_config
from functory.daemon.daemon import Daemon
from functory.errors import DaemonFailed, InvalidConfig
from functory.web.http.metrics import RequestCounts, render
from handlers.model import Handler
from runner.errors import IsolationError
from store.errors import StoreError
from tests.support.service import QUICK, ended, register, running_daemon, until


async def test_one_daemon_takes_in_and_another_runs(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'shared.db'}"
    async with (
        running_daemon(tmp_path / "api", role="api", store=store) as api,
        running_daemon(tmp_path / "run", role="run", store=store) as run,
    ):
        assert api.sysid != run.sysid
        await register(api, "acme-x", "return payload")
        ids = await api.journal.write("acme-x", ["a", "b"])
        records = [await ended(api, id_) for id_ in ids]
        assert api.executor.claimed == 0
        assert run.executor.claimed == 2
        daemons = await api.store.list_daemons(now_ms=api.clock.now_ms())
    assert [record.outcome.result for record in records if record.outcome] == [b'"a"', b'"b"']
    roles = {daemon.sysid: json.loads(daemon.info)["role"] for daemon in daemons}
    assert roles == {api.sysid: "api", run.sysid: "run"}


async def test_it_starts_although_the_note_of_its_last_owner_is_damaged(tmp_path: Path) -> None:
    async with running_daemon(tmp_path):
        pass
    await asyncio.to_thread((tmp_path / "journal" / "owner").write_bytes, b"\xff\xfe 12")
    async with running_daemon(tmp_path) as daemon:
        sysid = daemon.sysid
    assert (await asyncio.to_thread((tmp_path / "journal" / "owner").read_text)).startswith(f"{sysid} ")


async def test_a_damaged_identity_of_its_journal_is_told_with_the_way_out(tmp_path: Path) -> None:
    identity = tmp_path / "journal" / "identity"
    async with running_daemon(tmp_path):
        pass
    kept = await asyncio.to_thread(identity.read_text)
    for damaged in ("", "\n", kept[:-1], kept + "0", "reader"):
        await asyncio.to_thread(identity.write_text, damaged)
        with pytest.raises(InvalidConfig, match=f"^{re.escape(str(identity))} is damaged: .* write random ones"):
            await Daemon(load_config({"data_dir": str(tmp_path), **QUICK}, {}).settings).open()
    await asyncio.to_thread(identity.write_text, f"{kept}\n")
    async with running_daemon(tmp_path):
        pass  # an editor's line break is no damage
    await asyncio.to_thread(identity.write_text, "0123456789abcdef")
    async with running_daemon(tmp_path):
        pass


async def test_no_metric_is_rendered_twice(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        text = render(RequestCounts(), daemon.gauges(), daemon.journal.stats(), [], [], 0)
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert "functory_journal_backlog_bytes" in names


@pytest.mark.parametrize("verbs", [[], ["resign_consumers", "release_sysid"]], ids=["in order", "refused"])
async def test_a_part_that_dies_takes_the_daemon_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verbs: list[str]
) -> None:
    """Also if the store refuses the last steps."""
    daemon = Daemon(load_config({"data_dir": str(tmp_path), **QUICK}, {}).settings)
    await daemon.open()

    async def break_down() -> None:
        raise ZeroDivisionError("a defect of ours")

    async def refuse(*_given: Any, **_named: Any) -> None:
        raise StoreError("refused")

    monkeypatch.setattr(daemon.intake, "run", break_down)
    for verb in verbs:
        monkeypatch.setattr(daemon.store, verb, refuse)
    with pytest.raises(DaemonFailed, match="ingest loop ended"):
        await daemon.run()
    async with running_daemon(tmp_path):
        pass  # and it left nothing locked


async def test_runnable_work_that_nobody_touches_raises_an_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, stuck="80ms") as daemon:
        await register(daemon, "acme-x", "return None")
        with monkeypatch.context() as patch:
            patch.setattr(daemon.executor._policy, "select_jobtype_to_run", lambda _: None)
            (id_,) = await daemon.journal.write("acme-x", ["x"])
            await until(lambda: _stuck(daemon))
            assert "acme-x" in daemon.health().problems["stuck"]
            assert daemon.gauges()["jobtypes_stuck"] == 1
        await ended(daemon, id_)
        await until(lambda: _unstuck(daemon))


async def test_a_machine_that_cannot_isolate_runs_no_tenant_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intake goes on, jobs wait, and everybody is told why."""

    async def refuse(*_: object, **__: object) -> object:
        raise IsolationError("this machine gives L0")

    monkeypatch.setattr("functory.daemon.isolation.proven_launcher", refuse)
    async with running_daemon(tmp_path, min_isolation="L2", all_tenants_trusted="false") as daemon:
        await register(daemon, "acme-x", "return None")
        (id_,) = await daemon.journal.write("acme-x", ["x"])
        await daemon.intake.flush()
        record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
        assert record
        assert (record.state, daemon.executor.claimed) == ("waiting", 0)
        assert "L0" in daemon.health().problems["isolation"]
        with pytest.raises(IsolationError):
            await daemon.trial_runs.invoke("acme-x", Handler("python", "return None"), b"x")


async def _stuck(daemon: Daemon) -> bool:
    return bool(daemon.health().problems.get("stuck"))


async def _unstuck(daemon: Daemon) -> bool:
    await asyncio.sleep(0)
    return "stuck" not in daemon.health().problems

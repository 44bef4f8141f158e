"""Cancel of a running job: one outcome, here at once, elsewhere with the next renewal."""

import asyncio
import json
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.hearing import Hearing
from functory.daemon.service import service_of
from functory.intake.job_options import JobOptions
from functory.operations import jobs as operations
from functory.operations.jobs import cancel_job
from store.base import Code
from store.errors import Conflict
from tests.support.jobs import new_job
from tests.support.service import ended, register, running_daemon, until

WAITS = """
import json, time, pathlib
ask = json.loads(payload)
if ask.get("quick"):
    return "quick"
print("begun", flush=True)
pathlib.Path(ask["sign"]).touch()
ctx.enqueue("later", "never")
ctx.carry("never")
until = pathlib.Path(ask["sign"] + ".go")
while not until.exists():
    time.sleep(0.01)
return "went"
"""


async def add(daemon: Daemon, *payloads: object, repeat: str = "") -> list[str]:
    lines = [json.dumps(payload).encode() for payload in payloads]
    ids = await daemon.intake.write("acme-wait", lines, JobOptions(repeat=repeat))
    await daemon.intake.flush()
    daemon.wake()
    return ids


async def begun(sign: Path) -> None:
    async def is_there() -> bool:
        return await asyncio.to_thread(sign.exists)

    await until(is_there)


async def is_idle(daemon: Daemon) -> bool:
    return not daemon._parts.runner.gauges()["running_jobs"] and not daemon.executor.leases


async def test_a_running_job_is_stopped_and_keeps_its_log(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    async with running_daemon(tmp_path / "d") as daemon:
        await register(daemon, "acme-wait", WAITS)
        first, second = await add(daemon, {"sign": str(sign)}, {"quick": True}, repeat="FINISHED, +1 HOUR")
        await begun(sign)
        await cancel_job(service_of(daemon), "acme", first)
        record = await ended(daemon, first)
        assert record.outcome is not None
        assert (record.outcome.code, record.outcome.exitcode) == (Code.CANCELLED, 499)
        assert record.outcome.log == b"begun\n"
        assert (record.outcome.result or b"").startswith(b"cancelled while it was running")
        assert (record.job.attempts, record.job.data) == (1, json.dumps({"sign": str(sign)}).encode())

        async def second_has_run() -> bool:
            other = await daemon.store.get_job("acme", second, now_ms=daemon.clock.now_ms())
            return other is not None and other.outcome is not None and other.outcome.code is Code.OK

        await until(second_has_run)
        await cancel_job(service_of(daemon), "acme", first)  # again changes nothing
        (counters,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        assert (counters.cancelled, counters.ok, counters.failed, counters.running) == (1, 1, 0, 0)


async def test_a_run_elsewhere_is_ended_with_the_next_renewal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody tells of it before."""

    async def hear_nothing(_: Hearing) -> None:
        return

    monkeypatch.setattr(Hearing, "_end_cancelled", hear_nothing)
    sign = tmp_path / "sign"
    store = f"sqlite:///{tmp_path / 'shared.db'}"
    async with (
        running_daemon(tmp_path / "one", store=store, lease="900ms") as runs,
        running_daemon(tmp_path / "two", store=store, lease="900ms", role="api") as asks,
    ):
        await register(runs, "acme-wait", WAITS)
        (job_id,) = await add(runs, {"sign": str(sign)})
        await begun(sign)
        await cancel_job(service_of(asks), "acme", job_id)
        record = await ended(asks, job_id)
        await until(lambda: is_idle(runs))
        assert await ended(asks, job_id) == record, "what the run left has changed nothing"
        assert record.outcome is not None
        assert record.outcome.code is Code.CANCELLED


async def test_another_tenant_cannot_stop_a_run(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    async with running_daemon(tmp_path / "d") as daemon:
        await register(daemon, "acme-wait", WAITS)
        (job_id,) = await add(daemon, {"sign": str(sign)})
        await begun(sign)
        assert not daemon.cancel_run("other", job_id)
        (tmp_path / "sign.go").touch()
        record = await ended(daemon, job_id)
        assert record.outcome is not None
        assert record.outcome.code is Code.OK


async def test_a_schedule_is_not_said_again_while_its_run_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be acknowledged, and then gone with what is being cancelled."""
    sign = tmp_path / "sign"
    payload = json.dumps({"sign": str(sign)}).encode()
    ids = {number: f"20261114T235959123Z-zz-00000{number}" for number in (1, 2)}
    said: list[str] = []
    async with running_daemon(tmp_path / "d") as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-wait", WAITS)

        async def say(number: int) -> str:
            now_ms = daemon.clock.now_ms()
            job = new_job(
                number, jobtype="acme-wait", data=payload, dt_ms=now_ms, repeat="FINISHED, +1 HOUR", unique="news"
            )
            report = await daemon.store.create_job(job._replace(id=ids[number]), now_ms=now_ms)
            daemon.wake()
            return report.id

        async def say_meanwhile(*_: object, **__: object) -> None:
            with pytest.raises(Conflict, match="is being cancelled"):
                await say(2)
            said.append("refused")

        first = await say(1)
        await begun(sign)
        assert await say(2) == first
        monkeypatch.setattr(daemon, "cancel_run", lambda *_: True)
        monkeypatch.setattr(operations, "wait_for_job", say_meanwhile)
        await cancel_job(service, "acme", first)
        assert said == ["refused"]
        assert await say(2) == ids[2]
        await asyncio.to_thread(Path(f"{sign}.go").touch)

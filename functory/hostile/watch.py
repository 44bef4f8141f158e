"""What others notice while a tenant is hostile: the health check, the jobs of a neighbour, the memory of the daemon."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from functory.client import Client
from functory.errors import FunctoryError
from functory.wire.jobs import Added

_LOOK_S: Final = 0.1
_WAIT_S: Final = 30.0


@dataclass(slots=True)
class Seen:
    """The worst of each."""

    health_wait_s: float = 0.0
    victim_wait_s: float = 0.0
    daemon_bytes: int = 0
    looks: int = 0
    trouble: str = ""


class Watch:
    """Looks again and again until `stop`."""

    def __init__(self, daemon_pid: int, operator: Client, victim: Client, job_type: str) -> None:
        self._pid = daemon_pid
        self._operator = operator
        self._victim = victim
        self._type = job_type
        self.seen = Seen()
        self._tasks = [asyncio.create_task(self._repeat(look)) for look in (self._health, self._job)]

    async def look_once_more(self) -> None:
        """After the act: the damage may show only now."""
        await self._health()
        await self._job()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            await look()
            await asyncio.sleep(_LOOK_S)

    async def _health(self) -> None:
        began_s = time.monotonic()
        try:
            await self._operator.health(is_live_enough=True)
        except (FunctoryError, OSError) as error:
            self.seen.trouble = f"the daemon does not answer: {error}"
        self.seen.health_wait_s = max(self.seen.health_wait_s, time.monotonic() - began_s)
        self.seen.daemon_bytes = max(self.seen.daemon_bytes, await asyncio.to_thread(_resident_bytes, self._pid))
        self.seen.looks += 1

    async def _job(self) -> None:
        began_s = time.monotonic()
        try:
            job_id = only_id(await self._victim.add_jobs(self._type, ["x"]))
            job = await self._victim.get_job(job_id, wait_s=_WAIT_S)
        except (FunctoryError, OSError) as error:
            self.seen.trouble = f"another tenant gets no answer: {error}"
            return
        if job.exitcode != 200:
            self.seen.trouble = f"a job of another tenant is {job.state}, {job.exitcode} after {_WAIT_S:g} s"
        self.seen.victim_wait_s = max(self.seen.victim_wait_s, time.monotonic() - began_s)


def only_id(added: Added) -> str:
    assert isinstance(added.ids, list)
    return added.ids[0]


def _resident_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)

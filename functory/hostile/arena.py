"""Where acts take place: a private daemon in a temporary folder, with a victim at work and a hostile tenant.

Never a daemon that serves anybody: what an act breaks is thrown away with the folder.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from functory.client import Client
from functory.daemon.own_process import OwnDaemon, run_own_daemon
from functory.errors import DaemonFailed
from functory.hostile.watch import Watch, only_id
from functory.wire.jobs import Job

_HOSTILE: Final = "mallory"
_VICTIM: Final = "victim"
_VICTIMS_TYPE: Final = "quick"
_FLAGS: Final = ("--max-contexts-memory", "512MiB", "--poll", "200ms", "--log-level", "ERROR")
_WAIT_S: Final = 60.0


class Arena:
    """`hostile` acts; `operator` may be asked to change tenants."""

    def __init__(self, daemon: OwnDaemon, operator: Client, victim: Client, name: str = _HOSTILE) -> None:
        self.daemon = daemon
        self.operator = operator
        self.name = name
        self.key = ""
        self._victim = victim
        self._hostile: Client | None = None

    def of(self, name: str) -> "Arena":
        """The same place for another hostile tenant, so that several act at the same time."""
        return Arena(self.daemon, self.operator, self._victim, name)

    @property
    def hostile(self) -> Client:
        assert self._hostile is not None, "between two acts there is no hostile tenant"
        return self._hostile

    @asynccontextmanager
    async def hostile_tenant(self) -> AsyncIterator[None]:
        """A new tenant for the time of an act."""
        await self.create_hostile()
        try:
            yield
        finally:
            await self.remove_hostile()

    async def create_hostile(self) -> None:
        await self.operator.create_tenant(self.name)
        self.key = (await self.operator.create_key(self.name)).key
        self._hostile = Client(self.daemon.url, self.key, self.name)

    async def remove_hostile(self) -> None:
        await self.hostile.close()
        self._hostile = None
        if self.daemon.status is None:
            await self.operator.delete_tenant(self.name)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Watch]:
        watch = Watch(self.daemon.pid, self.operator, self._victim, _VICTIMS_TYPE)
        try:
            yield watch
        finally:
            await watch.stop()

    async def run_job(self, job_type: str, body: str, payload: str = "x", **fields: Any) -> Job:
        """A job of the hostile tenant, from its handler to its end."""
        await self.hostile.put_handler(job_type, "python", body, **fields)
        return await self.ended(only_id(await self.hostile.add_jobs(job_type, [payload])))

    async def ended(self, job_id: str) -> Job:
        """The job when it has ended, or as it is after a minute."""
        return await self.hostile.get_job(job_id, wait_s=_WAIT_S)


@asynccontextmanager
async def open_arena() -> AsyncIterator[Arena]:
    """Raises DaemonFailed when the daemon does not start, or may not run tenants' code here."""
    async with AsyncExitStack() as stack:
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="functory-hostile-"))
        stack.push_async_callback(asyncio.to_thread, shutil.rmtree, folder, ignore_errors=True)
        daemon = await stack.enter_async_context(run_own_daemon(folder, _FLAGS))
        operator = await stack.enter_async_context(Client(daemon.url, await daemon.operator_key()))
        info = (await operator.list_daemons()).daemons[0].info
        if "isolation" in info["problems"]:
            raise DaemonFailed(f"tenants' code may not run on this machine: {info['problems']['isolation']}")
        await operator.create_tenant(_VICTIM)
        key = (await operator.create_key(_VICTIM)).key
        victim = await stack.enter_async_context(Client(daemon.url, key, _VICTIM))
        await victim.put_handler(_VICTIMS_TYPE, "python", "return payload")
        yield Arena(daemon, operator, victim)

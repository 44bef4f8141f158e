"""What the storm strikes: daemons on one store, their disk, their clock and the way to their store.

Everything that records stays outside of it, on another disk and without the stepped clock.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from functory.client import Client
from functory.daemon.operator_key import OPERATOR_KEY_FILE
from tests.storm.link import Link
from tests.storm.load import JOB_TYPE, TENANT
from tests.storm.member import Member, SteppedClock, is_ready
from tests.storm.plan import Form, Kind
from tests.support.daemon_process import SANDBOXED
from tests.support.mongo_server import MongoServer
from tests.support.polling import until
from tests.support.small_disk import SmallDisk

PROBE_TYPE: Final = "probe"
_SETTINGS: Final = {
    "poll": "200ms",
    "slots": "4",
    "log_jobs": "true",
    "journal_segment": "256KiB",
    "journal_min_free": "1MiB",
}
_BODY: Final = """
# Some take a while, so that faults find work in flight.
import time
if payload.endswith("5"): time.sleep(0.01)
if payload.endswith("13"): ctx.fail("as planned")
if payload.endswith("7") and ctx.attempt == 1: ctx.retry(after_s=0.01)
return payload
"""
_OBSERVER: Final = """
import os
observer = os.open({path!r}, os.O_WRONLY | os.O_APPEND)
"""
_OBSERVED: Final = 'os.write(observer, f"run {ctx.id} {ctx.attempt} {payload}\\n".encode())'


class Deployment:
    def __init__(self, form: Form, records: Path, members: list[Member], clock: SteppedClock) -> None:
        self.form = form
        self.records = records
        self.members = members
        self.clock = clock
        self.disk: SmallDisk | None = None
        self.server: MongoServer | None = None
        self.link: Link | None = None
        self.key = ""
        self.calm_s = 0.0
        """How long this machine takes from starting the first daemon to answering: the measure for what follows."""

    @property
    def observer(self) -> Path | None:
        return None if self.form.is_sandboxed else self.records / "observer.log"

    @property
    def kinds(self) -> frozenset[Kind]:
        """The faults that this machine allows."""
        lacking = set()
        if self.disk is None:
            lacking |= {Kind.FULL_DISK}
        if self.link is None:
            lacking |= {Kind.STORE_KILL, Kind.STORE_LINK}
        return self.form.kinds - lacking

    def client(self, member: Member | None = None) -> Client:
        return Client((member or self.members[0]).url, self.key, TENANT, timeout_s=15)

    async def start(self) -> None:
        """The daemons, the tenant and its handlers."""
        started_s = time.monotonic()
        await self.members[0].start()
        await until(lambda: is_ready(self.members[0]))
        self.calm_s = time.monotonic() - started_s
        operator_key = await asyncio.to_thread((self.members[0].data_dir / OPERATOR_KEY_FILE).read_text)
        async with Client(self.members[0].url, operator_key.strip()) as operator:
            await operator.create_tenant(TENANT)
            self.key = (await operator.create_key(TENANT)).key
        before, body = "", _BODY
        if self.observer:
            await asyncio.to_thread(self.observer.touch)
            before, body = _OBSERVER.format(path=str(self.observer)), _OBSERVED + body
        async with self.client() as tenant:
            for job_type in (JOB_TYPE, PROBE_TYPE):
                await tenant.put_handler(job_type, "python", body, before=before)
        for member in self.members[1:]:
            await member.start()
            await until(partial(is_ready, member))

    def deaths(self) -> list[str]:
        """Daemons that ended though nobody killed them."""
        return [f"daemon {member.name} ended with {member.status}" for member in self.members if member.status]


@asynccontextmanager
async def deployed(form: Form, folder: Path, server: MongoServer | None, disk_bytes: int) -> AsyncIterator[Deployment]:
    records, disk = folder / "records", SmallDisk(folder / "disk", disk_bytes)
    await asyncio.to_thread(records.mkdir)
    async with AsyncExitStack() as stack:
        trouble = await asyncio.to_thread(disk.mount)
        if not trouble:
            stack.push_async_callback(asyncio.to_thread, disk.unmount)
        link = store_url = None
        if server is None:
            store_url = f"sqlite://{disk.path}/shared.db"
        elif server.can_be_killed:
            parts = urlsplit(server.url)
            assert parts.hostname
            assert parts.port
            link = await stack.enter_async_context(Link(parts.hostname, parts.port))
            store_url = f"mongodb://127.0.0.1:{link.port}/{form.name.replace('-', '_')}"
        else:
            store_url = f"{server.url.rstrip('/')}/{form.name.replace('-', '_')}"
        clock = SteppedClock(records / "clock")
        settings = _SETTINGS | {"store": store_url, "lease": f"{form.lease_s}s", "straight": form.straight}
        settings |= SANDBOXED if form.is_sandboxed else {}
        members = [Member(name, disk.path / name, records, clock, settings) for name in "ab"[: form.daemons]]
        for member in members:
            stack.push_async_callback(member.end)
        made = Deployment(form, records, members, clock)
        made.disk, made.server, made.link = None if trouble else disk, server, link
        try:
            await made.start()
            yield made
        except BaseException as error:
            for member in members:
                error.add_note(f"The end of the log of daemon {member.name}:\n{await member.last_words()}")
            raise

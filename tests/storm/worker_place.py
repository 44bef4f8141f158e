"""Where workers are tried: daemons on one store, ways to them that can break, and what the workers wrote down."""

import asyncio
import re
import sys
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

from functory.client import Client
from functory.daemon.operator_key import OPERATOR_KEY_FILE
from store.url import open_store
from tests.storm.link import Link
from tests.storm.load import TENANT
from tests.storm.member import Member, SteppedClock, is_ready
from tests.storm.worker import JOB_TYPE
from tests.support import network
from tests.support.command_line import clean_environ
from tests.support.polling import until

LEASE_S: Final = 2.0


class Place:
    """Two daemons on one store, and three ways to them: a relay in front of each, and, where the machine can have
    one, a cable from a network namespace to the first."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self.store_url = store_url
        self.records = folder / "workers.log"
        self.records.touch()
        self.clock = SteppedClock(folder / "clock")
        settings = {"store": store_url, "lease": "5s", "poll": "200ms"}
        self.members = [Member(name, folder / name, folder, self.clock, settings) for name in "ab"]
        self.links: list[Link] = []
        self.cable: network.Link | None = None
        self.key = self.operator_key = ""
        self._cable_port = 0
        self._workers: list[asyncio.subprocess.Process] = []

    async def start(self, stack: AsyncExitStack) -> None:
        for member in self.members:
            stack.push_async_callback(member.end)
            await member.start()
            await until(partial(is_ready, member))
            self.links.append(await stack.enter_async_context(Link(*_address(member))))
        if network.can_make_namespaces():
            (end,) = await stack.enter_async_context(network.links(1, _address(self.members[0])))
            self.cable, self._cable_port = end
        text = await asyncio.to_thread((self.members[0].data_dir / OPERATOR_KEY_FILE).read_text)
        self.operator_key = text.strip()
        async with Client(self.members[0].url, self.operator_key) as operator:
            await operator.create_tenant(TENANT)
            self.key = (await operator.create_key(TENANT)).key
        async with self.client() as client:
            await client.put_handler(JOB_TYPE, "worker", "", options={"max_attempts": 1000, "retry_base_ms": 1})
        stack.push_async_callback(self._end_workers)

    def client(self) -> Client:
        return Client(self.members[0].url, self.key, TENANT)

    async def near_worker(self) -> asyncio.subprocess.Process:
        """Behind one of the relays, in turn."""
        link = self.links[len(self._workers) % len(self.links)]
        return await self._worker(f"http://127.0.0.1:{link.port}")

    async def far_worker(self, *how: str) -> asyncio.subprocess.Process:
        """At the other end of the cable."""
        assert self.cable is not None
        url = f"http://{self.cable.here}:{self._cable_port}"
        return await self._worker(url, *how, prefix=self.cable.prefix)

    async def _worker(self, url: str, *how: str, prefix: list[str] | None = None) -> asyncio.subprocess.Process:
        name = f"worker{len(self._workers)}"
        worker = await asyncio.create_subprocess_exec(
            *(prefix or []),
            *(sys.executable, "-m", "tests.storm.worker"),
            *(url, self.key, name, str(self.records), f"{LEASE_S}", *how),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=clean_environ(),
            cwd=Path(__file__).parents[2],
        )
        self._workers.append(worker)
        return worker

    async def has_ended(self, jobs: int) -> bool:
        async with self.client() as client:
            return sum(row.ok for row in (await client.scoreboard()).types) == jobs

    async def late_reports(self) -> float:
        """What the daemons have counted."""
        counted = 0.0
        for member in self.members:
            async with Client(member.url, self.operator_key) as operator:
                match = re.search(r"^functory_worker_reports_late_total (\S+)$", await operator.metrics(), re.MULTILINE)
            assert match
            counted += float(match[1])
        return counted

    async def said(self) -> dict[str, Counter[str]]:
        """What the workers wrote down: how often each word was said of each job."""
        said: dict[str, Counter[str]] = {"run": Counter(), "done": Counter(), "late": Counter()}
        for line in (await asyncio.to_thread(self.records.read_text)).splitlines():
            word, job_id = line.split()
            said[word][job_id] += 1
        return said

    async def check(self, jobs: int) -> None:
        """Each payload has a job that ended well, with that payload as its result; no end was accepted twice, and
        what was refused is counted."""
        said = await self.said()
        assert not [job_id for job_id, times in said["done"].items() if times > 1], "no end was accepted twice"
        counted, late = await self.late_reports(), sum(said["late"].values())
        assert counted >= late, "the daemons count what they refuse, also if the refusal did not arrive"
        found: Counter[bytes] = Counter()
        async with open_store(self.store_url) as store:
            for job_id in said["run"]:
                record = await store.get_job(TENANT, job_id, now_ms=0)
                assert record is not None
                assert record.outcome is not None, f"{job_id} was run and has not ended"
                assert (record.outcome.code, record.outcome.result) == ("ok", record.job.data)
                found[record.job.data] += 1
        assert found == Counter(f"{number}".encode() for number in range(jobs))

    async def _end_workers(self) -> None:
        for worker in self._workers:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()


def _address(member: Member) -> tuple[str, int]:
    host, port = member.url.removeprefix("http://").split(":")
    return host, int(port)

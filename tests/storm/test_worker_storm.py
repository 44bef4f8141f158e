"""Workers on other machines: killed, stopped for three leases and continued, cut off, behind a network that swallows
everything, and with clocks of the daemons that are stepped.

At the end every job has ended once with its own result, no end was accepted twice, and every report that came too late
was refused and counted. 2,000 jobs and 6 faults on SQLite; `make storm` makes them 100,000 and 50, on both stores.
FUNCTORY_STORM_SEED chooses which.
"""

import asyncio
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from functory.client import Client
from functory.daemon.server import OPERATOR_KEY_FILE
from store.url import open_store
from tests.storm.link import Link
from tests.storm.load import TENANT
from tests.storm.member import Member, SteppedClock, is_ready
from tests.storm.worker import JOB_TYPE
from tests.support.command_line import clean_environ
from tests.support.polling import until
from tests.support.stores import BACK_ENDS

SEED = int(os.environ.get("FUNCTORY_STORM_SEED", "20261116"))
FAULTS = int(os.environ.get("FUNCTORY_WORKER_FAULTS", "6"))
JOBS = int(os.environ.get("FUNCTORY_WORKER_JOBS", "2000"))
STORES = ("sqlite", "mongodb") if "FUNCTORY_WORKER_FAULTS" in os.environ else ("sqlite",)
LEASE_S: Final = 2.0
_WORKERS: Final = 4
_BATCH: Final = 1000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * FAULTS + JOBS // 50)]


class Place:
    """Two daemons on one store, a link in front of each, and workers that use the links."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self.store_url = store_url
        self.records = folder / "workers.log"
        self.records.touch()
        self.clock = SteppedClock(folder / "clock")
        settings = {"store": store_url, "lease": "5s", "poll": "200ms"}
        self.members = [Member(name, folder / name, folder, self.clock, settings) for name in "ab"]
        self.links: list[Link] = []
        self.workers: list[asyncio.subprocess.Process] = []
        self.key = self.operator_key = ""
        self._made = 0

    async def start(self, stack: AsyncExitStack) -> None:
        for member in self.members:
            stack.push_async_callback(member.end)
            await member.start()
            await until(partial(is_ready, member))
            host, port = member.url.removeprefix("http://").split(":")
            self.links.append(await stack.enter_async_context(Link(host, int(port))))
        text = await asyncio.to_thread((self.members[0].data_dir / OPERATOR_KEY_FILE).read_text)
        self.operator_key = text.strip()
        async with Client(self.members[0].url, self.operator_key) as operator:
            await operator.create_tenant(TENANT)
            self.key = (await operator.create_key(TENANT)).key
        async with self.client() as client:
            await client.put_handler(JOB_TYPE, "worker", "", options={"max_attempts": 1000, "retry_base_ms": 1})
        stack.push_async_callback(self.end_workers)
        for _ in range(_WORKERS):
            self.workers.append(await self.worker())

    def client(self) -> Client:
        return Client(self.members[0].url, self.key, TENANT)

    async def worker(self) -> asyncio.subprocess.Process:
        self._made += 1
        link = self.links[self._made % len(self.links)]
        arguments = (f"http://127.0.0.1:{link.port}", self.key, f"worker{self._made}", str(self.records), f"{LEASE_S}")
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.storm.worker", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=clean_environ(),
            cwd=Path(__file__).parents[2],
        )

    async def late_reports(self, member: Member) -> float:
        """What a daemon has counted."""
        async with Client(member.url, self.operator_key) as operator:
            match = re.search(r"^functory_worker_reports_late_total (\S+)$", await operator.metrics(), re.MULTILINE)
        assert match
        return float(match[1])

    async def end_workers(self) -> None:
        for worker in self.workers:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()

    # Faults

    async def kill(self, dice: random.Random) -> None:
        number = dice.randrange(_WORKERS)
        self.workers[number].kill()
        await self.workers[number].wait()
        self.workers[number] = await self.worker()

    async def freeze(self, dice: random.Random) -> None:
        worker = dice.choice(self.workers)
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(3 * LEASE_S)
        worker.send_signal(signal.SIGCONT)

    async def cut(self, dice: random.Random) -> None:
        link = dice.choice(self.links)
        link.cut()
        await asyncio.sleep(dice.uniform(0.1, 2 * LEASE_S))
        link.mend()

    async def swallow(self, dice: random.Random) -> None:
        link = dice.choice(self.links)
        link.hold()
        await asyncio.sleep(dice.uniform(LEASE_S, 3 * LEASE_S))
        link.mend()

    async def step(self, dice: random.Random) -> None:
        self.clock.step(dice.choice((-10.0, -1.0, 1.0, 10.0)))


async def rage(place: Place) -> None:
    """Before each fault some jobs, so that it finds work in flight."""
    dice = random.Random(SEED)
    kinds = [place.kill, place.freeze, place.cut, place.swallow, place.step]
    dice.shuffle(kinds)
    posted = 0
    async with place.client() as client:
        for fault in range(FAULTS):
            upto = JOBS * (fault + 1) // FAULTS
            for start in range(posted, upto, _BATCH):
                await client.add_jobs(JOB_TYPE, [f"{number}" for number in range(start, min(start + _BATCH, upto))])
            posted = upto
            await asyncio.sleep(dice.uniform(0.0, 0.3))
            await kinds[fault % len(kinds)](dice)


@pytest.fixture(params=STORES)
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


async def test_every_job_of_workers_ends_once(tmp_path: Path, store_url: str) -> None:
    place = Place(tmp_path, store_url)
    async with AsyncExitStack() as stack:
        await place.start(stack)
        await rage(place)
        async with place.client() as client:

            async def is_over() -> bool:
                (row,) = (await client.scoreboard()).types
                return row.ok == JOBS

            await until(is_over, timeout_s=240 + JOBS / 50)
        said = await asyncio.to_thread(read_records, place.records)
        counted = sum([await place.late_reports(member) for member in place.members])
        late = sum(said["late"].values())
        assert counted >= late, "the daemons count what they refuse, also if the refusal did not arrive"
        assert late or FAULTS < 3, "there was a storm"
        assert not [job_id for job_id, times in said["done"].items() if times > 1], "no end was accepted twice"
    await check_results(place, set(said["run"]))


def read_records(path: Path) -> dict[str, Counter[str]]:
    said: dict[str, Counter[str]] = {"run": Counter(), "done": Counter(), "late": Counter()}
    for line in path.read_text().splitlines():
        word, job_id = line.split()
        said[word][job_id] += 1
    return said


async def check_results(place: Place, run: set[str]) -> None:
    """Each payload has a job that ended well, with that payload as its result."""
    found: Counter[bytes] = Counter()
    async with open_store(place.store_url) as store:
        for job_id in run:
            record = await store.get_job(TENANT, job_id, now_ms=0)
            assert record is not None
            assert record.outcome is not None, f"{job_id} was run and has not ended"
            assert (record.outcome.code, record.outcome.result) == ("ok", record.job.data)
            found[record.job.data] += 1
    assert found == Counter(f"{number}".encode() for number in range(JOBS))

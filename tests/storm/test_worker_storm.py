"""Workers on other machines: killed, stopped for three leases and continued, cut off, behind a network that swallows
everything or drops every packet, and with clocks of the daemons that are stepped.

At the end every job has ended once with its own result, no end was accepted twice, and every report that came too late
was refused and counted. 2,000 jobs and 6 faults on SQLite; `make storm` makes them 100,000 and 50, on both stores.
FUNCTORY_STORM_SEED chooses which.
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.storm.worker import JOB_TYPE
from tests.storm.worker_place import LEASE_S, Place
from tests.support.polling import until
from tests.support.stores import BACK_ENDS

SEED = int(os.environ.get("FUNCTORY_STORM_SEED", "20261116"))
FAULTS = int(os.environ.get("FUNCTORY_WORKER_FAULTS", "6"))
JOBS = int(os.environ.get("FUNCTORY_WORKER_JOBS", "2000"))
STORES = ("sqlite", "mongodb") if "FUNCTORY_WORKER_FAULTS" in os.environ else ("sqlite",)
_WORKERS: Final = 4
_BATCH: Final = 1000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * FAULTS + JOBS // 50)]


class Adversary:
    """Its faults, one method each, and the workers that they strike. The first worker is at the end of the cable, if
    there is one."""

    def __init__(self, place: Place, dice: random.Random) -> None:
        self._place = place
        self._dice = dice
        self._workers: list[asyncio.subprocess.Process] = []
        self.faults = [self.kill, self.freeze, self.cut, self.swallow, self.step]
        if place.cable is not None:
            self.faults.append(self.unplug)
        dice.shuffle(self.faults)

    async def start_workers(self) -> None:
        for number in range(_WORKERS):
            self._workers.append(await self._worker(number))

    async def kill(self) -> None:
        number = self._dice.randrange(_WORKERS)
        self._workers[number].kill()
        await self._workers[number].wait()
        self._workers[number] = await self._worker(number)

    async def freeze(self) -> None:
        worker = self._dice.choice(self._workers)
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(3 * LEASE_S)
        worker.send_signal(signal.SIGCONT)

    async def cut(self) -> None:
        link = self._dice.choice(self._place.links)
        link.cut()
        await asyncio.sleep(self._dice.uniform(0.1, 2 * LEASE_S))
        link.mend()

    async def swallow(self) -> None:
        link = self._dice.choice(self._place.links)
        link.hold()
        await asyncio.sleep(self._dice.uniform(LEASE_S, 3 * LEASE_S))
        link.mend()

    async def unplug(self) -> None:
        cable = self._place.cable
        assert cable is not None
        await cable.cut()
        await asyncio.sleep(self._dice.uniform(LEASE_S, 3 * LEASE_S))
        await cable.mend()

    async def step(self) -> None:
        self._place.clock.step(self._dice.choice((-10.0, -1.0, 1.0, 10.0)))

    async def _worker(self, number: int) -> asyncio.subprocess.Process:
        is_far = number == 0 and self._place.cable is not None
        return await (self._place.far_worker() if is_far else self._place.near_worker())


async def rage(place: Place) -> None:
    """Before each fault some jobs, so that it finds work in flight."""
    dice = random.Random(SEED)
    adversary = Adversary(place, dice)
    await adversary.start_workers()
    posted = 0
    async with place.client() as client:
        for fault in range(FAULTS):
            upto = JOBS * (fault + 1) // FAULTS
            for start in range(posted, upto, _BATCH):
                await client.add_jobs(JOB_TYPE, [f"{number}" for number in range(start, min(start + _BATCH, upto))])
            posted = upto
            await asyncio.sleep(dice.uniform(0.0, 0.3))
            await adversary.faults[fault % len(adversary.faults)]()


@pytest.fixture(params=STORES)
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


async def test_every_job_of_workers_ends_once(tmp_path: Path, store_url: str) -> None:
    place = Place(tmp_path, store_url)
    async with AsyncExitStack() as stack:
        await place.start(stack)
        await rage(place)
        await until(lambda: place.has_ended(JOBS), timeout_s=240 + JOBS / 50)
        assert (await place.said())["late"] or FAULTS < 3, "there was a storm"
        await place.check(JOBS)

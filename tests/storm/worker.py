"""A worker of the storm: `python -m tests.storm.worker URL KEY NAME RECORD LEASE_S [hold]`.

Writes a line for each job, appended in one write each: `run ID` before its work, then `done ID` when the end was
accepted, or `late ID` when the lease was lost. With `hold` it keeps each job until its lease is lost, and reports it
all the same.
"""

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable

from functory.errors import LeaseLost
from functory.queue import Job, Queue, open_queue
from tests.storm.load import TENANT

JOB_TYPE = "outside"
HOLD = "hold"
_SIDE_BY_SIDE = 8
_AT_ONCE = 20

Task = Callable[[Job], Awaitable[object]]


async def main(url: str, key: str, name: str, record: str, lease_s: str, how: str = "") -> None:
    file = os.open(record, os.O_WRONLY | os.O_APPEND)
    async with (
        open_queue(url, key=key, tenant=TENANT, name=name, lease_s=float(lease_s)) as queue,
        asyncio.TaskGroup() as hands,
    ):
        for number in range(_SIDE_BY_SIDE):
            task = _hold if how == HOLD else _quick(random.Random(f"{name} {number}"))
            hands.create_task(_work(queue, file, task))


async def _work(queue: Queue, file: int, task: Task) -> None:
    while True:
        jobs = await queue.take_some(JOB_TYPE, limit=_AT_ONCE, wait_s=5.0)
        await asyncio.gather(*(_run(job, file, task) for job in jobs))


async def _run(job: Job, file: int, task: Task) -> None:
    os.write(file, f"run {job.id}\n".encode())
    await task(job)
    try:
        await job.done(job.payload)
        word = "done"
    except LeaseLost:
        word = "late"
    os.write(file, f"{word} {job.id}\n".encode())


async def _hold(job: Job) -> None:
    await job.lost.wait()


def _quick(dice: random.Random) -> Task:
    async def task(_: Job) -> None:
        if dice.random() < 0.1:
            await asyncio.sleep(dice.uniform(0.0, 0.5))  # so that faults find work in flight

    return task


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

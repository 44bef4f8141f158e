"""A worker of the storm: `python -m tests.storm.worker URL KEY NAME RECORD LEASE_S`.

Writes a line for each job, appended in one write each: `run ID` before its work, then `done ID` when the end was
accepted, or `late ID` when the lease was lost.
"""

import asyncio
import os
import random
import sys

from functory.errors import LeaseLost
from functory.queue import Job, Queue, open_queue
from tests.storm.load import TENANT

JOB_TYPE = "outside"
_SIDE_BY_SIDE = 8
_AT_ONCE = 20


async def main(url: str, key: str, name: str, record: str, lease_s: str) -> None:
    file = os.open(record, os.O_WRONLY | os.O_APPEND)
    async with (
        open_queue(url, key=key, tenant=TENANT, name=name, lease_s=float(lease_s)) as queue,
        asyncio.TaskGroup() as hands,
    ):
        for number in range(_SIDE_BY_SIDE):
            hands.create_task(_work(queue, file, random.Random(f"{name} {number}")))


async def _work(queue: Queue, file: int, dice: random.Random) -> None:
    while True:
        jobs = await queue.take_some(JOB_TYPE, limit=_AT_ONCE, wait_s=5.0)
        await asyncio.gather(*(_run(job, file, dice) for job in jobs))


async def _run(job: Job, file: int, dice: random.Random) -> None:
    os.write(file, f"run {job.id}\n".encode())
    if dice.random() < 0.1:
        await asyncio.sleep(dice.uniform(0.0, 0.5))  # so that faults find work in flight
    try:
        await job.done(job.payload)
        word = "done"
    except LeaseLost:
        word = "late"
    os.write(file, f"{word} {job.id}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

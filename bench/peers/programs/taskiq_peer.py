"""Taskiq on a Redis list, its quickest broker (no acknowledgement), results off.

It has no bulk call; calls are in flight together instead.
"""

import asyncio

import uvloop
from counting import PAYLOAD, URL, order, ran, timed
from taskiq_redis import ListQueueBroker

IN_FLIGHT = {"bulk": 50, "single": 1}

# Without a timeout: its blocking pop of an empty queue would end with an error, and lose the job that comes next.
broker = ListQueueBroker(URL, max_connection_pool_size=60, socket_timeout=None)


@broker.task(task_name="noop")
async def noop(_payload: str) -> None:
    ran()


async def produce() -> None:
    kind, count = order()
    await broker.startup()
    left = iter(range(count))

    async def caller() -> None:
        for _ in left:
            await noop.kiq(PAYLOAD)

    with timed():
        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT[kind])))
    await broker.shutdown()


def main() -> None:
    uvloop.run(produce())

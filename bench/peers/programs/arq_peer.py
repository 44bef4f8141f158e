"""arq: asynchronous, results not kept. It has no bulk call; calls are in flight together instead."""

import asyncio
from typing import Any, ClassVar

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from counting import PAYLOAD, URL, order, ran, timed

IN_FLIGHT = {"bulk": 50, "single": 1}


async def noop(_context: dict[str, Any], _payload: str) -> None:
    ran()


class WorkerSettings:
    functions: ClassVar = [noop]
    redis_settings = RedisSettings.from_dsn(URL)
    keep_result = 0
    max_jobs = 100
    poll_delay = 0.01
    max_tries = 1


async def produce() -> None:
    kind, count = order()
    pool = await create_pool(RedisSettings.from_dsn(URL))
    left = iter(range(count))

    async def caller() -> None:
        for _ in left:
            await pool.enqueue_job("noop", PAYLOAD)

    with timed():
        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT[kind])))
    await pool.aclose()


def main() -> None:
    uvloop.run(produce())

"""The load client: a process of its own, so that what it was told is known whatever happens to the rest.

`python -m tests.storm.load URLS KEY RECORD SEED RATE TOTAL`. It posts about RATE jobs a second, in requests of many
sizes, to whichever daemon the dice say, and never the same job twice: a request without an answer is not repeated. On
standard output it says how many were acknowledged so far. A line on its standard input means that the faults are over:
it posts until TOTAL are acknowledged, as fast as it can, and ends.
"""

import asyncio
import itertools
import random
import sys
from pathlib import Path
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.storm.records import LineFile

TENANT: Final = "storm"
JOB_TYPE: Final = "work"
PATH: Final = f"/{TENANT}/job/{JOB_TYPE}/add"
_POSTERS: Final = 4
_SIZES: Final = (1, 1, 1, 5, 20, 100)
_FINAL_SIZE: Final = 1000
_TIMEOUT_S: Final = 10.0


class Load:
    def __init__(self, urls: list[str], record: LineFile, seed: int, rate: float, total: int) -> None:
        self._urls = urls
        self._record = record
        self._dice = random.Random(seed)
        self._numbers = itertools.count()
        self._pause_s = 1 / rate
        self._total = total
        self._acknowledged = 0
        self._is_calm = asyncio.Event()

    async def run(self, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        async with ClientSession(headers=headers, timeout=ClientTimeout(total=_TIMEOUT_S)) as session:
            told = asyncio.create_task(self._listen())
            await asyncio.gather(*[self._post_at_a_pace(session) for _ in range(_POSTERS)])
            while self._acknowledged < self._total:
                await self._post(session, min(_FINAL_SIZE, self._total - self._acknowledged))
            await told

    async def _listen(self) -> None:
        await asyncio.to_thread(sys.stdin.readline)
        self._is_calm.set()

    async def _post_at_a_pace(self, session: ClientSession) -> None:
        while not self._is_calm.is_set():
            count = self._dice.choice(_SIZES)
            await self._post(session, count)
            try:
                async with asyncio.timeout(self._pause_s * _POSTERS * count):
                    await self._is_calm.wait()
            except TimeoutError:
                continue

    async def _post(self, session: ClientSession, count: int) -> None:
        request = f"c{next(self._numbers)}"
        body = "\n".join(f"{request}.{n}" for n in range(count)).encode()
        self._record.write(f"S {request} {count}")
        try:
            async with session.post(self._dice.choice(self._urls) + PATH, data=body) as answer:
                document = await answer.json()
        except (ClientError, TimeoutError) as error:
            self._record.write(f"N {request} {type(error).__name__}")
            return
        if answer.status != 200:
            self._record.write(f"N {request} {answer.status} {document['error']['code']}")
            return
        self._record.write(f"A {request} {' '.join(document['ids'])}")
        self._acknowledged += count
        sys.stdout.write(f"{self._acknowledged}\n")
        sys.stdout.flush()


def main() -> None:
    urls, key, record, seed, rate, total = sys.argv[1:]
    load = Load(urls.split(","), LineFile(Path(record)), int(seed), float(rate), int(total))
    asyncio.run(load.run(key))


if __name__ == "__main__":
    main()

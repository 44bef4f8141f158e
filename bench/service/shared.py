"""End to end through a MongoDB store that several daemons share: jobs a second with one, two and three of them.

python -m bench.service.shared [--json] [--jobs N] [--daemons N ...] [--rounds N]

Real daemons with their defaults on one server (`make mongo` builds FerretDB; it syncs every commit here; without a
server nothing is measured). No-ops of one
type, posted 1,000 at a time to all daemons in turn, until the last outcome is in the store. Client, daemons, FerretDB
and PostgreSQL share the machine, so its cores are divided among more processes with every daemon. The median round
counts.
"""

import argparse
import asyncio
import itertools
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.tools.connection import connect_many
from bench.tools.daemon import NO_OP, Service, posts, serve
from bench.tools.report import Report, parse_arguments
from functory.daemon.operator_key import OPERATOR_KEY_FILE
from tests.support.mongo_server import server_here

JOBS: Final = 10_000
DAEMONS: Final = (1, 2, 3)
ROUNDS: Final = 3
TENANT: Final = "bench"
_WARM: Final = 3000
_LOOK_S: Final = 0.1
_TIMEOUT_S: Final = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.shared", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="of each round")
    parser.add_argument("--daemons", type=int, nargs="+", default=DAEMONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parse_arguments(parser, None)
    report = Report("shared", as_json=arguments.json)
    server = server_here(fsync=True)
    if server is not None:
        server.start()
        try:
            with tempfile.TemporaryDirectory(prefix="bench-shared-") as name:
                rows = asyncio.run(measure(server.url, Path(name), arguments.daemons, arguments.jobs, arguments.rounds))
        finally:
            server.close()
        report.table(f"end to end through {type(server).__name__}, {arguments.jobs:,} no-ops", rows)
    report.finish()


async def measure(url: str, folder: Path, daemons: Sequence[int], jobs: int, rounds: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for place, count in enumerate(daemons):
        async with AsyncExitStack() as stack:
            settings = ["--store", f"{url}shared_{place}"]
            services: list[Service] = []
            for number in range(count):
                own = folder / f"{place}-{number}"
                if services:  # the first daemon of a store makes the operator's key
                    own.mkdir()
                    shutil.copy(folder / f"{place}-0" / OPERATOR_KEY_FILE, own)
                services.append(await stack.enter_async_context(serve(own, settings)))
            key = await services[0].make_tenant(TENANT, {"noop": NO_OP["python"]})
            await run(services, key, _WARM)
            rates = [await run(services, key, jobs) for _ in range(rounds)]
        rate = median(rates)
        alone = rows[0]["jobs/s"] if rows else rate
        rows.append({"daemons": count, "jobs/s": rate, "of the first": rate / alone})
    return rows


async def run(services: Sequence[Service], key: str, jobs: int) -> float:
    """Jobs a second, from the first POST to the last outcome."""
    before, began_s = await _ended(services[0], key), time.perf_counter()
    async with AsyncExitStack() as stack:
        connections = [
            connection
            for service in services
            for connection in await stack.enter_async_context(connect_many(service.port, 2))
        ]
        shares: list[list[bytes]] = [[] for _ in connections]
        for share, request in zip(itertools.cycle(shares), posts(TENANT, "noop", key, jobs), strict=False):
            share.append(request)

        async def post(number: int) -> None:
            for request in shares[number]:
                await connections[number].exchange(request)

        await asyncio.gather(*map(post, range(len(connections))))
    async with asyncio.timeout(_TIMEOUT_S):
        while await _ended(services[0], key) < before + jobs:  # noqa: ASYNC110 (other processes)
            await asyncio.sleep(_LOOK_S)
    return jobs / (time.perf_counter() - began_s)


async def _ended(service: Service, key: str) -> int:
    board = await service.ask("GET", f"/{TENANT}/scoreboard", key=key)
    return sum(row["ok"] for row in board["types"])


if __name__ == "__main__":
    main()

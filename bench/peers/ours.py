"""Functory through the same phases as its peers: with syncs, results, fairness and isolation, as a user has it."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.peers.harness import Rates
from bench.service.endtoend import Scenario
from bench.service.endtoend import measure as measure_scenario
from bench.tools.daemon import posts, serve

JOBS: Final = 100_000
SINGLES: Final = 5_000


async def measure_ours(scale: float) -> Rates:
    jobs, singles = max(int(JOBS * scale), 10), max(int(SINGLES * scale), 10)
    drained = await measure_scenario(Scenario(jobs=jobs, drain=True), None, None)
    whole = await measure_scenario(Scenario(jobs=jobs), None, None)
    return Rates(
        bulk=jobs / drained.accepted_s,
        single=await one_by_one(singles),
        drained=jobs / drained.ended_s,
        end_to_end=jobs / whole.ended_s,
        cpu_us=sum(whole.cpu_s.values()) / jobs * 1e6,
    )


async def one_by_one(jobs: int) -> float:
    """POSTs a second of one line, one caller, one after the other; nothing is executed meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="bench-ours-"))
    try:
        async with serve(folder / "data") as service:
            key = await service.make_tenant("acme", {})
            began_s = time.perf_counter()
            await service.post(posts("acme", "noop", key, jobs, lines=1), posters=1)
            return jobs / (time.perf_counter() - began_s)
    finally:
        shutil.rmtree(folder)

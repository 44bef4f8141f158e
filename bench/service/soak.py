"""A long run at an even load: memory, open files and the journal's lag must stay flat.

python -m bench.service.soak [--json] [--minutes M] [--share S] [--directory DIR]      (`make soak`: 30 minutes at 70 %)

First the bench finds the daemon's full rate, then it posts a share of that, evenly, with the defaults that a user has.
It compares the medians of the second and of the last quarter of the run, because caches fill in the first. Exits with 1
if something grew. Ended jobs stay in the store, as by default: half an hour takes about 10 GB of disk. The daemon's log
is emptied from time to time, as a supervisor rotates it.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.tools.daemon import NO_OP, Service, serve
from bench.tools.load import find_full_rate, steady
from bench.tools.report import Report, parse_arguments
from bench.tools.vitals import MB, memory, open_files

FULL_JOBS: Final = 50_000
SAMPLES: Final = 120
SHOWN: Final = 12
TOLERANCE: Final = 1.15
"""The last quarter may exceed the second by this factor."""
SLACK: Final = {"memory MB": 5.0, "open files": 4.0, "journal lag lines": 5_000.0, "waiting": 5_000.0}
"""And so much more is not growth: a small figure may double by chance."""


class Sample(NamedTuple):
    at_s: float
    figures: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--share", type=float, default=0.7, help="of the full load")
    parser.add_argument("--full", type=int, default=FULL_JOBS, help="jobs that find out what the full load is")
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("soak", as_json=arguments.json)
    folder = Path(tempfile.mkdtemp(prefix="bench-soak-", dir=arguments.directory))
    try:
        rate, samples = asyncio.run(run(folder, arguments.minutes * 60, arguments.share, arguments.full))
    finally:
        shutil.rmtree(folder)
    step = max(len(samples) // SHOWN, 1)
    rows = [{"minute": sample.at_s / 60, **sample.figures} for sample in samples[step - 1 :: step]]
    report.table(f"{arguments.minutes:g} minutes at {rate:,.0f} jobs/s, {arguments.share:.0%} of the full load", rows)
    verdicts = flatness(samples)
    report.table("flat or not: the second and the last quarter", verdicts)
    report.finish()
    sys.exit(any(verdict["flat"] == "no" for verdict in verdicts))


async def run(folder: Path, seconds: float, share: float, full_jobs: int) -> tuple[float, list[Sample]]:
    data = folder / "data"
    async with serve(data) as service:
        key = await service.make_tenant("soak", {"noop": NO_OP["python"]})
        rate = share * await find_full_rate(service, "soak", "noop", key, full_jobs)
        samples: list[Sample] = []
        async with steady(service, "soak", "noop", key, rate):
            began_s = time.perf_counter()
            before = await service.metrics()
            while (at_s := time.perf_counter() - began_s) < seconds:
                await asyncio.sleep(seconds / SAMPLES)
                after = await service.metrics()
                taken_s = time.perf_counter() - began_s - at_s
                samples.append(Sample(time.perf_counter() - began_s, figures(service, before, after, taken_s)))
                before = after
                os.truncate(data / "daemon.log", 0)
        return rate, samples


def figures(service: Service, before: dict[str, float], after: dict[str, float], taken_s: float) -> dict[str, float]:
    ended = "job_endings_total ok"
    return {
        "jobs/s": (after[ended] - before[ended]) / taken_s,
        "memory MB": memory(service.pid).now_bytes / MB,
        "open files": open_files(service.pid),
        "journal lag lines": after["journal_lines_written_total"] - after["journal_lines_read_total"],
        "waiting": after["jobs waiting"],
    }


def flatness(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """The medians of two quarters of the run, and whether the later one is no more than the earlier, within reason."""
    quarter = max(len(samples) // 4, 1)
    early, late = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    rows = []
    for name, slack in SLACK.items():
        then, now = (median(sample.figures[name] for sample in part) for part in (early, late))
        is_flat = now <= max(then * TOLERANCE, then + slack)
        rows.append({"what": name, "second quarter": then, "last quarter": now, "flat": "yes" if is_flat else "no"})
    return rows


if __name__ == "__main__":
    main()

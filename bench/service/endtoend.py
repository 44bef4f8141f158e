"""End to end: no-op jobs posted over HTTP to a real daemon until the last outcome is recorded, beside SQLite alone.

python -m bench.service.endtoend [--json] [--lang python|node|sh|wasm] [--jobs N] [--drain] [--result-bytes N]
                         [--tenants N --types N] [--rounds N] [--profile OUT.svg] [--all]

The daemon runs with the defaults that a user gets: synced journal, synced SQLite, sandbox, fairness, results, job log.
Jobs are posted 1,000 to a request over four connections. The limit is SQLite's part of the work alone: the statements
that insert, claim and release the same jobs, in one thread, with the same syncs. `--drain` accepts all jobs first and
measures from there. `--all` is the table of `make bench`.
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from bench.parts.store import limit_round, make_jobs
from bench.tools.cpu import CLIENT, CONTEXTS, EVENT_LOOP, OTHER, cpu_seconds, spent, told_apart
from bench.tools.daemon import LINES_PER_POST, NO_OP, Service, posts, serve, with_result
from bench.tools.profiler import profiled
from bench.tools.report import Report, parse_arguments

THREADS: Final = (EVENT_LOOP, "store-writer", "store-reader", "journal-write", "journal-read", OTHER, CONTEXTS, CLIENT)
LIMIT_JOBS: Final = 50_000
WARM_JOBS: Final = 2_000
"""Before the clock starts, so that contexts are up and the batch size has been learned, as in a service that runs."""


@dataclass(frozen=True)
class Scenario:
    lang: str = "python"
    jobs: int = 100_000
    drain: bool = False
    result_bytes: int = 0
    tenants: int = 1
    types: int = 1

    @property
    def name(self) -> str:
        extras = [
            "drain" if self.drain else "",
            f"result {self.result_bytes} B" if self.result_bytes else "",
            f"{self.tenants} tenants x {self.types} types" if self.tenants * self.types > 1 else "",
        ]
        return ", ".join([self.lang, *filter(None, extras)])


ALL: Final = (
    Scenario(),
    Scenario(drain=True),
    Scenario(result_bytes=1024),
    Scenario(tenants=100, types=10),
    Scenario("node"),
    Scenario("sh", jobs=10_000),
    Scenario("wasm", jobs=20_000),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.service.endtoend",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lang", choices=NO_OP, default="python")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--drain", action="store_true", help="accept all jobs first, then measure")
    parser.add_argument("--result-bytes", type=int, default=0, help="size of each job's result")
    parser.add_argument("--tenants", type=int, default=1)
    parser.add_argument("--types", type=int, default=1, help="of each tenant")
    parser.add_argument("--rounds", type=int, default=1, help="times to measure; every one is shown")
    parser.add_argument("--profile", type=Path, metavar="OUT", help="py-spy of the daemon: .svg, .json or text")
    parser.add_argument("--all", action="store_true", help="all scenarios in turn, with their own numbers of jobs")
    parser.add_argument("--directory", type=Path, help="where the data is (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    if arguments.result_bytes and arguments.lang == "wasm":
        parser.error("the wasm module returns nothing: leave out --result-bytes")
    one = Scenario(
        arguments.lang, arguments.jobs, arguments.drain, arguments.result_bytes, arguments.tenants, arguments.types
    )
    scenarios = (ALL if arguments.all else (one,)) * arguments.rounds
    report = Report("endtoend", as_json=arguments.json)
    rates, costs, isolation = [], [], ""
    for scenario in scenarios:
        limit = measure_limit(arguments.directory, min(LIMIT_JOBS, scenario.jobs))
        measured = asyncio.run(measure(scenario, arguments.directory, arguments.profile))
        isolation = measured.isolation
        rates.append(
            {
                "jobs are": scenario.name,
                "jobs": scenario.jobs,
                "accepted/s": scenario.jobs / measured.accepted_s,
                "jobs/s": scenario.jobs / measured.ended_s,
                "SQLite alone/s": limit.jobs_per_s,
                "ratio": scenario.jobs / measured.ended_s / limit.jobs_per_s,
            }
        )
        costs.append(
            {"jobs are": scenario.name}
            | {name: took_s / scenario.jobs * 1e6 for name, took_s in told_apart(measured.cpu_s, THREADS).items()}
            | {"all": sum(measured.cpu_s.values()) / scenario.jobs * 1e6, "SQLite alone": limit.cpu_us}
        )
    report.table(f"posted to recorded outcome, {LINES_PER_POST:,} lines a POST, isolation {isolation}", rates)
    report.table("processor time, µs a job", costs)
    report.finish()


@dataclass(frozen=True)
class Measured:
    accepted_s: float
    """From the first POST to the last acknowledgement."""
    ended_s: float
    """From the first POST (`drain`: from the start of execution) to the last recorded outcome."""
    cpu_s: dict[str, float]
    isolation: str


async def measure(scenario: Scenario, directory: Path | None, profile: Path | None) -> Measured:
    folder = Path(tempfile.mkdtemp(prefix="bench-endtoend-", dir=directory))
    try:
        async with serve(folder / "data") as service:
            return await run(service, scenario, profile)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


async def run(service: Service, scenario: Scenario, profile: Path | None) -> Measured:
    handler = with_result(scenario.lang, scenario.result_bytes) if scenario.result_bytes else NO_OP[scenario.lang]
    handlers = {f"t{number}": handler for number in range(scenario.types)}
    keys = {f"tenant{n}": await service.make_tenant(f"tenant{n}", handlers) for n in range(scenario.tenants)}
    warm_jobs = await load(service, keys, replace(scenario, jobs=WARM_JOBS))
    await service.until_ended(warm_jobs)
    if scenario.drain:
        await service.ask("POST", "/stop")
    async with profiled(service.pid, profile):
        cpu_s, began_s = cpu_seconds(service.pid), time.perf_counter()
        await load(service, keys, scenario)
        accepted_s = time.perf_counter() - began_s
        if scenario.drain:
            await service.until_stored(warm_jobs + scenario.jobs)
            cpu_s, began_s = cpu_seconds(service.pid), time.perf_counter()
            await service.ask("POST", "/start")
        await service.until_ended(warm_jobs + scenario.jobs)
        return Measured(
            accepted_s, time.perf_counter() - began_s, spent(cpu_s, cpu_seconds(service.pid)), service.isolation
        )


async def load(service: Service, keys: dict[str, str], scenario: Scenario) -> int:
    """Post the jobs, spread evenly over all types. Returns their number."""
    share, rest = divmod(scenario.jobs, len(keys) * scenario.types)
    requests: list[bytes] = []
    for tenant, key in keys.items():
        for number in range(scenario.types):
            requests += posts(tenant, f"t{number}", key, share + (rest > 0))
            rest -= 1
    await service.post(requests)
    return scenario.jobs


class Limit(NamedTuple):
    jobs_per_s: float
    cpu_us: float


def measure_limit(directory: Path | None, count: int) -> Limit:
    """SQLite alone: jobs through insert, claim and release, measured just before the run that it limits."""
    jobs = make_jobs(count // LINES_PER_POST * LINES_PER_POST or 1)
    batches = [jobs[at : at + LINES_PER_POST] for at in range(0, len(jobs), LINES_PER_POST)]
    with tempfile.TemporaryDirectory(prefix="bench-limit-", dir=directory) as folder:
        cost = limit_round(Path(folder) / "limit.db", batches)
        return Limit(1e6 / cost.wall.through, cost.cpu.through)


if __name__ == "__main__":
    main()

"""How many Python functions the event loop calls for one single job, by the part that they belong to.

python -m bench.service.calls [--json] [--jobs N] [--functions N]

A count tells what a change is worth where times are too noisy to: it is the same on a busy machine. It is no time: a
call may be cheap or dear, and what C does is not counted. Eight tenants that wait for their jobs share some turns of
the event loop, so one tenant has more calls. `invoke` makes no job: what it costs is HTTP and the runner.
"""

import argparse
import asyncio
import os
import pstats
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.service.single import Trip, each_of, in_one_request, invoke
from bench.tools.daemon import NO_OP, serve
from bench.tools.report import Report, parse_arguments

JOBS: Final = 800
_CASES: Final[dict[str, tuple[int, Trip]]] = {
    "1 tenant, add?wait_s": (1, in_one_request),
    "8 tenants, add?wait_s": (8, in_one_request),
    "8 tenants, invoke": (8, invoke),
}
_HERE: Final = f"{Path(__file__).parents[2]}/"
_LOOK_S: Final = 0.02
_WRITE_TIMEOUT_S: Final = 60.0
Calls = dict[tuple[str, int, str], float]
"""By file, line and name of a function: how often it was called for a job."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.service.calls", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs in each case")
    parser.add_argument("--functions", type=int, default=0, help="name the functions that are called most")
    arguments = parse_arguments(parser, None)
    report = Report("calls", as_json=arguments.json)
    found = asyncio.run(measure(arguments.jobs))
    by_part = {case: _by_part(calls) for case, calls in found.items()}
    parts = sorted(set().union(*by_part.values()), key=lambda part: -by_part["8 tenants, add?wait_s"][part])
    rows = [{"part": part, **{case: round(counts[part], 1) for case, counts in by_part.items()}} for part in parts]
    totals = {case: round(counts.total(), 1) for case, counts in by_part.items()}
    report.table("calls of Python functions for a job, in the event loop", [{"part": "all", **totals}, *rows])
    for case, calls in found.items() if arguments.functions else ():
        most = sorted(calls.items(), key=lambda item: -item[1])[: arguments.functions]
        shown = [
            {"calls": round(count, 2), "function": name, "where": f"{_short(path)}:{line}"}
            for (path, line, name), count in most
        ]
        report.table(case, shown)
    report.finish()


async def measure(jobs: int) -> dict[str, Calls]:
    folder = Path(tempfile.mkdtemp(prefix="bench-calls-"))
    try:
        out = folder / "calls"
        async with serve(folder / "data", program=["-m", "bench.tools.counted_daemon", str(out)]) as service:
            keys = {name: await service.make_tenant(name, {"noop": NO_OP["python"]}) for name in "abcdefgh"}
            await each_of(service, keys, 20, in_one_request)  # warm contexts
            found: dict[str, Calls] = {}
            for case, (tenants, trip) in _CASES.items():
                who = dict(list(keys.items())[:tenants])
                os.kill(service.pid, signal.SIGUSR1)
                trips = len(await each_of(service, who, jobs // tenants, trip))
                os.kill(service.pid, signal.SIGUSR1)
                async with asyncio.timeout(_WRITE_TIMEOUT_S):
                    while not out.exists():  # noqa: ASYNC110 (another process)
                        await asyncio.sleep(_LOOK_S)
                found[case] = {function: count / trips for function, count in _counts(out)}
                out.unlink()
            return found
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


def _counts(path: Path) -> Iterator[tuple[tuple[str, int, str], int]]:
    stats: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]  # typeshed forgot it
    for function, counts in stats.items():
        if function[0] != "~":  # what C does
            yield function, counts[1]


def _by_part(calls: Calls) -> Counter[str]:
    parts: Counter[str] = Counter()
    for (path, _, _), count in calls.items():
        parts[_part(path)] += count  # type: ignore[assignment]  # a Counter of shares
    return parts


def _part(path: str) -> str:
    """A package of ours, a room of the application, a library, or a module of the standard library."""
    name = _short(path).split("/")
    return "/".join(name[:2]) if name[0] == "functory" else name[0].removesuffix(".py")


def _short(path: str) -> str:
    if "/site-packages/" in path:
        return path.split("/site-packages/")[1]
    if path.startswith(_HERE):
        return path.removeprefix(_HERE)
    return path.rpartition("/python3.")[2].partition("/")[2] or path


if __name__ == "__main__":
    main()

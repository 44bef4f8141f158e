"""The runner beside its limit: a bare loop over a pipe to a warm process, in the same run. Isolation on.

python -m bench.parts.runner [--json] [--plain] [--seconds S] [--contexts N]
"""

import argparse
import asyncio
import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import wasmtime

from bench.tools.report import Report, parse_arguments, quantile
from handlers.languages import LANGUAGES
from handlers.model import Handler
from runner.plain import PlainLauncher
from runner.pool import PoolSettings
from runner.runner import Runner, RunnerSettings
from runner.sandbox.launcher import SandboxLauncher

PAYLOAD = b"x" * 100
BATCHES = (1, 10, 100, 500, 1000)
REPLY_BYTES = 16
COLD_STARTS = 30
MB = 1 << 20
WASM = base64.b64encode(bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1) (func (export "_start")))')))
NOTHING = {
    "python": Handler("python", "return None"),
    "node": Handler("node", "(payload, ctx) => null", memory_mb=192),
    "php": Handler("php", "return null;"),
    "sh": Handler("sh", ":"),
    "wasm": Handler("wasm", WASM.decode()),
}
BARS = {("python", 500): 100_000, ("node", 500): 50_000}
COLD_BARS_MS = {"python": 15, "node": 120, "wasm": 2}


class Job(NamedTuple):
    id: str
    data: bytes
    attempts: int = 1
    options: str = ""


def jobs(count: int) -> list[Job]:
    return [Job(f"20261114T235959123Z-a7-{number:06x}", PAYLOAD) for number in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.runner", description=__doc__)
    parser.add_argument("--plain", action="store_true", help="without isolation")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each measurement")
    parser.add_argument("--contexts", type=int, default=200, help="idle python contexts to weigh")
    arguments = parse_arguments(parser, None)
    asyncio.run(measure(arguments))


async def measure(arguments: argparse.Namespace) -> None:
    report = Report("runner", as_json=arguments.json)
    launcher = PlainLauncher() if arguments.plain else SandboxLauncher()
    pool = PoolSettings(max_contexts=arguments.contexts + 10, max_memory_bytes=1 << 40)
    runner = Runner(launcher, RunnerSettings(pool=pool))
    await runner.start()
    languages = [name for name in NOTHING if LANGUAGES[name].missing() is None]
    isolation = f"isolation {launcher.level.name}"
    try:
        limits = {size: limit(size, arguments.seconds) for size in BATCHES}
        rows = [
            await speed(runner, name, size, limits[size], arguments.seconds) for name in languages for size in BATCHES
        ]
        report.table(f"no-op jobs through one warm context, 100-byte payloads, {isolation}", rows)
        report.table(
            f"cold start: a handler never seen to its first result, {isolation}", await cold(runner, languages)
        )
        report.table(f"memory, {isolation}", [await weigh(runner, arguments.contexts)])
    finally:
        await runner.close()
    report.finish()


async def speed(runner: Runner, name: str, size: int, limit_rate: float, seconds: float) -> dict[str, Any]:
    batch, handler, done = jobs(size), NOTHING[name], 0

    async def once() -> None:
        nonlocal done
        left = await runner.run_jobs("bench-noop", batch, handler, heard.extend)
        if left or any(one.exitcode != 200 for one in heard):
            raise RuntimeError(f"{name}: {heard[:1]}")
        done += len(heard)
        heard.clear()

    heard: list[Any] = []
    await once()
    done = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        await once()
    rate = done / (time.perf_counter() - began)
    bar = BARS.get((name, size))
    return {
        "language": name,
        "batch": size,
        "jobs/s": rate,
        "limit jobs/s": limit_rate,
        "ratio": rate / limit_rate,
        "bar": bar or "",
        "met": "" if bar is None else "yes" if rate >= bar else "no",
    }


def limit(size: int, seconds: float) -> float:
    """The same bytes both ways: a loop over a batch that calls nothing, keeps nothing and replies to each job."""
    wanted = size * REPLY_BYTES
    child = f"""import os, sys
while True:
    batch = sys.stdin.buffer.read({size * len(PAYLOAD)})
    if not batch: break
    for at in range({size}):
        job = batch[at * {len(PAYLOAD)} : (at + 1) * {len(PAYLOAD)}]
        os.write(1, b'x' * {REPLY_BYTES})
"""
    with subprocess.Popen([sys.executable, "-I", "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
        if peer.stdin is None or peer.stdout is None:
            raise RuntimeError("no pipes")
        request, answer = peer.stdin.fileno(), peer.stdout.fileno()
        rounds, message = 0, PAYLOAD * size
        began = time.perf_counter()
        while time.perf_counter() - began < seconds / 2:
            view = memoryview(message)
            while view:
                view = view[os.write(request, view) :]
            left = wanted
            while left:
                left -= len(os.read(answer, left))
            rounds += 1
        return rounds * size / (time.perf_counter() - began)


async def cold(runner: Runner, languages: list[str]) -> list[dict[str, Any]]:
    rows = []
    for name in languages:
        times = [await first_result(runner, handler, name) for handler in versions(NOTHING[name])]
        bar = COLD_BARS_MS.get(name)
        p50 = quantile(times, 0.5)
        rows.append(
            {
                "language": name,
                "p50 ms": p50,
                "p90 ms": quantile(times, 0.9),
                "bar ms": bar or "",
                "met": "" if bar is None else "yes" if p50 <= bar else "no",
            }
        )
    return rows


def versions(handler: Handler) -> Iterator[Handler]:
    for number in range(COLD_STARTS):
        yield replace(handler, timeout_s=30.0 + number / 1000)


async def first_result(runner: Runner, handler: Handler, name: str) -> float:
    """Registration comes first, with its check; a wasm module is compiled there, and the code is kept."""
    jobtype = f"bench-{name}"
    await runner.check(jobtype, handler)
    await asyncio.sleep(0.1)  # as between a registration and its first job; spare contexts are made meanwhile
    began = time.perf_counter()
    await runner.run_jobs(jobtype, jobs(1), handler, lambda _: None)
    took_ms = (time.perf_counter() - began) * 1000
    await runner.retire(jobtype, handler)
    return took_ms


async def weigh(runner: Runner, count: int) -> dict[str, Any]:
    handler = NOTHING["python"]
    began = time.perf_counter()
    for number in range(count):
        await runner.run_jobs(f"bench-{number}", jobs(1), replace(handler, timeout_s=10.0 + number), lambda _: None)
    took_s = time.perf_counter() - began
    gauges = runner.gauges()
    used = gauges["memory_bytes"]
    return {
        "idle python contexts": gauges["idle"],
        "all MB": used / MB,
        "each MB": used / MB / max(gauges["idle"], 1),
        "started in s": took_s,
        "bar MB": 2048 * count // 200,
        "met": "yes" if used <= 2048 * MB * count // 200 else "no",
    }


if __name__ == "__main__":
    main()

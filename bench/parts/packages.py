"""Packages of handlers: how long it takes to lock and to install them, and a cold start with and without.

python -m bench.parts.packages [--json] [--package NAME] [--starts N] [--pause S]    needs uv, and an index that answers
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.parts.runner import first_result
from bench.tools.report import Report, parse_arguments, quantile
from functory.daemon.packages import find_tools, way_out
from handlers.model import Handler
from handlers.packages import Requirements
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.sandbox import BuildSandbox
from runner.packages.tools import BuildSettings
from runner.packages.trees import TreeFolder
from runner.runner import Runner
from runner.sandbox.launcher import SandboxLauncher

BAR_MS = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.packages", description=__doc__)
    parser.add_argument("--package", default="requests", help="what the handler asks for and imports")
    parser.add_argument("--starts", type=int, default=30, help="cold starts to measure")
    parser.add_argument(
        "--pause", type=float, default=1.0, help="seconds between them: a blank context imports meanwhile"
    )
    arguments = parse_arguments(parser, None)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(arguments, Path(folder)))


async def measure(arguments: argparse.Namespace, folder: Path) -> None:
    report = Report("packages", as_json=arguments.json)
    launcher = SandboxLauncher()
    settings = BuildSettings()
    tools = await asyncio.to_thread(find_tools, settings)
    sandbox = BuildSandbox(launcher, settings, tools, threads=2, egress=way_out(tools))
    packages = Packages(sandbox, TreeFolder(folder / "packages"), ProviderSettings())
    runner = Runner(launcher, packages=packages)
    await runner.start()
    try:
        name = arguments.package
        began = time.perf_counter()
        lock = await packages.lock("bench", Requirements((name,)))
        locked = time.perf_counter()
        tree = await packages.have("bench-python", lock)
        built = time.perf_counter()
        row = {"package": name, "lock s": locked - began, "install s": built - locked, "MB": tree.size_bytes / 1e6}
        report.table("from a name to a tree", [row])
        bare = await starts(runner, Handler("python", "return None"), arguments)
        full = await starts(runner, Handler("python", f"import {name}\nreturn None", lock=lock), arguments)
        more = full["p50 ms"] - bare["p50 ms"]
        rows = [
            {"packages": "none", **bare, "more ms": "", "bar ms": "", "met": ""},
            {"packages": name, **full, "more ms": more, "bar ms": BAR_MS, "met": "yes" if more <= BAR_MS else "no"},
        ]
        report.table(f"cold start, imports included, isolation {launcher.level.name}", rows)
    finally:
        await packages.close()
        await runner.close()
    report.finish()


async def starts(runner: Runner, handler: Handler, arguments: argparse.Namespace) -> dict[str, Any]:
    times = []
    for number in range(arguments.starts + 1):
        times.append(await first_result(runner, replace(handler, timeout_s=30.0 + number / 1000), "python"))
        await asyncio.sleep(arguments.pause)
    times = times[1:]  # the first makes the spawner
    return {"p50 ms": quantile(times, 0.5), "p90 ms": quantile(times, 0.9)}


if __name__ == "__main__":
    main()

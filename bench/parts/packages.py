"""Packages of handlers: how long it takes to lock and to install them, and a cold start with and without, of a text and
of a folder.

python -m bench.parts.packages [--json] [--package NAME] [--node-package NAME] [--starts N] [--pause S]

Needs uv, and an index that answers; for the rows of node npm and its registry.
"""

import argparse
import asyncio
import hashlib
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.parts.runner import first_result
from bench.tools.report import Report, parse_arguments, quantile
from functory.daemon.packages import find_tools, way_out
from handlers.model import Handler
from handlers.npm import NodeRequirements
from handlers.packages import Lock, Requirements, Wanted
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
    parser.add_argument("--node-package", default="lodash", help="the same for node")
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
    folders = Folders(folder / "folders")
    runner = Runner(launcher, packages=packages, trees=folders)
    await runner.start()
    try:
        python, node = arguments.package, arguments.node_package
        wanted = [Requirements((python,))] + ([] if tools[1].missing else [NodeRequirements(((node, "*"),))])
        built = [await build(packages, each) for each in wanted]
        report.table("from a name to a tree", [row for row, _ in built])
        rows = await cold_starts(runner, python_handlers(folders, python, built[0][1]), arguments)
        if tools[1].missing:
            print(f"node: {tools[1].missing}", file=sys.stderr)
        else:
            rows += await cold_starts(runner, node_handlers(folders, node, built[1][1]), arguments)
        report.table(f"cold start, imports included, isolation {launcher.level.name}", rows)
    finally:
        await packages.close()
        await runner.close()
    report.finish()


async def build(packages: Packages, wanted: Wanted) -> tuple[dict[str, Any], Lock]:
    began = time.perf_counter()
    lock = await packages.lock("bench", wanted)
    locked = time.perf_counter()
    tree = await packages.have(f"bench-{wanted.lang}", lock)
    took = {"lock s": locked - began, "install s": time.perf_counter() - locked}
    return {"package": ", ".join(wanted.names), **took, "MB": tree.size_bytes / 1e6}, lock


class Folders:
    """Handlers that are folders of one file. Implements `runner.trees.TreeSource`."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def handler(self, lang: str, entry: str, text: str) -> Handler:
        tree = hashlib.sha256(text.encode()).hexdigest()
        place = self._base / tree
        place.mkdir(parents=True)
        (place / entry).write_text(text)
        return Handler(lang, text, entry=entry, tree=tree, memory_mb=192)

    async def have(self, tenant: str, tree: str) -> Path:  # noqa: ARG002 (the protocol's)
        return self._base / tree


def python_handlers(folders: Folders, name: str, lock: Lock) -> dict[str, Handler]:
    text = f"import {name}\nreturn None"
    return {
        "python, a text": Handler("python", "return None"),
        f"python, a text with {name}": Handler("python", text, lock=lock),
        "python, a folder": folders.handler("python", "main.py", "return None"),
        f"python, a folder with {name}": replace(folders.handler("python", "main.py", text), lock=lock),
    }


def node_handlers(folders: Folders, name: str, lock: Lock) -> dict[str, Handler]:
    text = f"import it from '{name}';\nexport default () => null;"
    return {
        "node, a text": Handler("node", "() => null", memory_mb=192),
        "node, a folder": folders.handler("node", "main.mjs", "export default () => null;"),
        f"node, a folder with {name}": replace(folders.handler("node", "main.mjs", text), lock=lock),
    }


async def cold_starts(
    runner: Runner, handlers: dict[str, Handler], arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Only what python imports from packages has a bar: node loads them when it starts."""
    rows: list[dict[str, Any]] = []
    for name, handler in handlers.items():
        took = await starts(runner, handler, arguments)
        more = took["p50 ms"] - rows[0]["p50 ms"] if rows else 0.0
        is_bound = handler.lang == "python" and handler.lock is not None
        met = ("yes" if more <= BAR_MS else "no") if is_bound else ""
        rows.append({"handler": name, **took, "more ms": more, "bar ms": BAR_MS if is_bound else "", "met": met})
    return rows


async def starts(runner: Runner, handler: Handler, arguments: argparse.Namespace) -> dict[str, Any]:
    times = []
    for number in range(arguments.starts + 1):
        times.append(await first_result(runner, replace(handler, timeout_s=30.0 + number / 1000), handler.lang))
        await asyncio.sleep(arguments.pause)
    times = times[1:]  # the first makes the spawner
    return {"p50 ms": quantile(times, 0.5), "p90 ms": quantile(times, 0.9)}


if __name__ == "__main__":
    main()

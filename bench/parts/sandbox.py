"""Cold start and memory of contexts, isolation on, beside the limit: the same program started with none.

"blank" is a launch that finds a blank context in stock, "made" one that has to be made first; the time runs from
`launch` to the first byte of the program.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.tools.report import Report, parse_arguments, quantile
from runner.launch import Child, Launcher, LaunchSpec, Limits
from runner.plain import PlainLauncher
from runner.sandbox.launcher import SandboxLauncher

LIMITS = Limits(memory_bytes=512 << 20, processes=64, open_files=256, file_bytes=64 << 20, scratch_bytes=64 << 20)
PYTHON = "import os\nos.write(4, b'x')\nos.read(3, 1)\n"
NODE = "require('fs').writeSync(4, 'x'); require('fs').readSync(3, Buffer.alloc(1))"
SH = "echo x >&4; read end <&3"


@dataclass(frozen=True, slots=True)
class ColdStart:
    language: str
    isolation: str
    median_ms: float
    p90_ms: float
    kill_ms: float


@dataclass(frozen=True, slots=True)
class Memory:
    contexts: int
    mb_per_context: float  # charged to its cgroup
    machine_mb: float  # by which the machine's available memory fell, spawner included


async def first_byte(child: Child) -> None:
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(child.reader, arrived.set)
    await arrived.wait()
    loop.remove_reader(child.reader)


async def cold_start(launcher: Launcher, spec: LaunchSpec, how: str, language: str, rounds: int) -> ColdStart:
    starts, kills = [], []
    for _ in range(rounds):
        if how == "blank" and isinstance(launcher, SandboxLauncher):
            await launcher.prepare(spec)
        begin = time.perf_counter()
        child = await launcher.launch(spec)
        await first_byte(child)
        started = time.perf_counter()
        await child.kill()
        kills.append(time.perf_counter() - started)
        child.close()
        starts.append(started - begin)
    return ColdStart(
        language,
        how,
        quantile(starts, 0.5) * 1e3,
        quantile(starts, 0.9) * 1e3,
        quantile(kills, 0.5) * 1e3,
    )


async def idle_memory(spec: LaunchSpec, count: int) -> Memory:
    launcher = SandboxLauncher(spares=0)
    await launcher.start()
    before = available_bytes()
    children = []
    for _ in range(count):
        child = await launcher.launch(spec)
        await first_byte(child)
        children.append(child)
    charged = sum(child.memory_bytes() for child in children) / count
    fell = before - available_bytes()
    await launcher.close()
    for child in children:
        child.close()
    return Memory(count, charged / 1e6, fell / 1e6)


def available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024


async def measure(directory: Path, rounds: int, contexts: int) -> tuple[list[ColdStart], Memory]:
    program = directory / "program.py"
    program.write_text(PYTHON)
    specs = {
        "python": LaunchSpec("bench", (sys.executable, "-I", program), {}, LIMITS, template="python"),
        "sh": LaunchSpec("bench", ("/bin/sh", "-c", SH), {}, LIMITS),
    }
    if node := shutil.which("node"):
        specs["node"] = LaunchSpec("bench", (node, "-e", NODE), {}, LIMITS)
    rows = []
    for how, launcher in (
        ("none", PlainLauncher()),
        ("made", SandboxLauncher(spares=0)),
        ("blank", SandboxLauncher(spares=1)),
    ):
        await launcher.start()
        for language, spec in specs.items():
            await cold_start(launcher, spec, how, language, 2)  # the first of all starts the spawner
            rows.append(await cold_start(launcher, spec, how, language, rounds))
        await launcher.close()
    return rows, await idle_memory(specs["python"], contexts)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="cold start and memory of isolated contexts")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--contexts", type=int, default=200)
    arguments = parse_arguments(parser, argv)
    report = Report("sandbox", as_json=arguments.json)
    with tempfile.TemporaryDirectory() as directory:
        starts, memory = asyncio.run(measure(Path(directory), arguments.rounds, arguments.contexts))
    report.table("cold start, launch to first byte", [asdict(row) for row in starts])
    report.table("idle python contexts", [asdict(memory)])
    report.finish()


if __name__ == "__main__":
    main()

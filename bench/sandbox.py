"""Cold start and memory of contexts, isolation on, beside the limit: the same program started with none.

`python -m bench.sandbox` prints a table, `--json` the figures. "Blank" is a launch that finds a blank context in stock,
"made" one that has to be made first; the time runs from `launch` to the first byte of the program.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

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
    how: str
    median_ms: float
    p90_ms: float
    kill_ms: float


@dataclass(frozen=True, slots=True)
class Memory:
    contexts: int
    per_context_bytes: int  # charged to the contexts' cgroups
    machine_bytes: int  # by which the machine's available memory fell, spawner included


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
    starts.sort()
    return ColdStart(
        language,
        how,
        statistics.median(starts) * 1e3,
        starts[len(starts) * 9 // 10] * 1e3,
        statistics.median(kills) * 1e3,
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
    charged = sum(child.memory_bytes() for child in children) // count
    fell = before - available_bytes()
    await launcher.close()
    for child in children:
        child.close()
    return Memory(count, charged, fell)


def available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024


async def measure(directory: Path, rounds: int, contexts: int) -> tuple[list[ColdStart], Memory]:
    program = directory / "program.py"
    program.write_text(PYTHON)
    specs = {
        "python": LaunchSpec("bench", (sys.executable, "-I", str(program)), {}, LIMITS, template="python"),
        "sh": LaunchSpec("bench", ("/bin/sh", "-c", SH), {}, LIMITS),
    }
    if node := shutil.which("node"):
        specs["node"] = LaunchSpec("bench", (os.path.realpath(node), "-e", NODE), {}, LIMITS)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--contexts", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rows, memory = asyncio.run(measure(Path(directory), arguments.rounds, arguments.contexts))
    if arguments.json:
        print(json.dumps({"cold_start": [asdict(row) for row in rows], "memory": asdict(memory)}, indent=2))
        return
    print(f"{'language':10}{'isolation':12}{'median ms':>10}{'p90 ms':>10}{'kill ms':>10}")
    for row in rows:
        print(f"{row.language:10}{row.how:12}{row.median_ms:10.1f}{row.p90_ms:10.1f}{row.kill_ms:10.1f}")
    print(
        f"\n{memory.contexts} idle python contexts: {memory.per_context_bytes / 1e6:.1f} MB each in their cgroups, "
        f"{memory.machine_bytes / 1e6:.0f} MB of the machine's memory together"
    )


if __name__ == "__main__":
    main()

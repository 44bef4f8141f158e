"""py-spy on a running daemon. Installed on demand into a virtual environment of its own; nothing of ours needs it."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).parents[2] / ".cache" / "py-spy"
_FORMATS: Final = {".svg": "flamegraph", ".json": "speedscope"}
_SAMPLES_PER_S: Final = "200"


def installed() -> Path:
    """The program, after installing it if need be."""
    program = CACHE / "bin" / "py-spy"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", CACHE], check=True)
        subprocess.run(
            [CACHE / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "py-spy"],
            check=True,
        )
    return program


@asynccontextmanager
async def profiled(pid: int, out: Path | None) -> AsyncIterator[None]:
    """Sample the process, thread by thread, as long as the block runs; the suffix of `out` chooses the format
    (.svg a flame graph, .json for speedscope, anything else folded stacks as text). No `out`: do nothing."""
    if out is None:
        yield
        return
    program = await asyncio.to_thread(installed)
    recording = await asyncio.create_subprocess_exec(
        program, "record", "--pid", str(pid), "--threads", "--rate", _SAMPLES_PER_S,
        "--format", _FORMATS.get(out.suffix, "raw"), "--output", out,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        recording.send_signal(signal.SIGINT)  # it writes its file and ends
        await recording.wait()

"""`functory ...` as a person types it: a process of its own, its output and how it ended."""

import asyncio
import os
import sys
from typing import NamedTuple

_TIMEOUT_S = 90.0


class Ended(NamedTuple):
    status: int
    out: str
    err: str


async def functory(*arguments: str, given: str = "", **environ: str) -> Ended:
    """Run one command with `given` on its standard input; of our variables it sees only those that are named."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "functory",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environ() | environ,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            out, err = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


def clean_environ() -> dict[str, str]:
    """Ours without the settings of a developer's own daemon, and with compiled code kept between the processes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FUNCTORY_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept

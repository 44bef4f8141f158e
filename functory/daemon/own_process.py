"""A daemon in a process of its own, on a free port and in a folder that is given: for a demonstration or a trial."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiofiles

from functory.daemon.operator_key import OPERATOR_KEY_FILE
from functory.errors import DaemonFailed

_LISTENS: Final = re.compile(rb"listens on (http://\S+)")
_START_TIMEOUT_S: Final = 120.0


class OwnDaemon:
    """`status` is how it ended, None before that."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, url: str) -> None:
        self._process = process
        self._folder = folder
        self.url = url

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        return self._process.returncode

    async def operator_key(self) -> str:
        async with aiofiles.open(self._folder / OPERATOR_KEY_FILE) as file:
            return (await file.read()).strip()


@asynccontextmanager
async def run_own_daemon(folder: Path, flags: Sequence[str] = ()) -> AsyncIterator[OwnDaemon]:
    """Started, and at the end stopped as an operator would stop it. Raises DaemonFailed with its log."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "functory",
        "serve",
        "--data-dir",
        folder,
        "--port",
        "0",
        "--log-jobs",
        "false",
        *flags,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    drain: asyncio.Task[bytes] | None = None
    try:
        url = await _address(process)
        drain = asyncio.create_task(process.stderr.read())
        yield OwnDaemon(process, folder, url)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if drain is not None:
            await drain


async def _address(process: asyncio.subprocess.Process) -> str:
    """The address it listens on, from its log."""
    assert process.stderr is not None
    lines: list[bytes] = []
    async with asyncio.timeout(_START_TIMEOUT_S):
        while line := await process.stderr.readline():
            lines.append(line)
            if match := _LISTENS.search(line):
                return match[1].decode()
        status = await process.wait()
    raise DaemonFailed(f"the daemon ended with status {status}:\n" + b"".join(lines).decode(errors="replace"))

"""Contexts in tests: small programs, limits that are reached quickly, and reading from pipes without
blocking.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from runner.launch import Child, LaunchSpec, Limits

LIMITS: Final = Limits(memory_bytes=128 << 20, processes=32, open_files=64, file_bytes=4 << 20, scratch_bytes=16 << 20)
DEADLINE_S: Final = 60.0


def sh(script: str, *, env: dict[str, str] | None = None, limits: Limits = LIMITS, network: bool = False) -> LaunchSpec:
    return LaunchSpec("acme", ("/bin/sh", "-c", script), env or {}, limits, network=network)


def forked(program: Path, *args: str, env: dict[str, str] | None = None, limits: Limits = LIMITS) -> LaunchSpec:
    argv: tuple[str | Path, ...] = (sys.executable, "-I", program, *args)
    return LaunchSpec("acme", argv, env or {}, limits, template="python")


async def receive(fd: int) -> bytes:
    """What arrives next on a non-blocking pipe; b"" at its end."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(fd, arrived.set)
    try:
        await asyncio.wait_for(arrived.wait(), DEADLINE_S)
        return os.read(fd, 1 << 16)
    finally:
        loop.remove_reader(fd)


async def receive_all(fd: int) -> bytes:
    """Everything up to the end of the pipe, which comes when no process holds it any more."""
    parts = bytearray()
    while part := await receive(fd):
        parts += part
    return bytes(parts)


async def finish(child: Child) -> tuple[bytes, bytes]:
    """(replies, log) of a context that ends by itself; its pipes are closed after it."""
    replies = await receive_all(child.reader)
    log = await receive_all(child.log_fd)
    await child.wait()
    child.close()
    return replies, log


async def discard(child: Child) -> None:
    await child.kill()
    child.close()

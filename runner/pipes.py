"""What every launched context has on the daemon's side, isolated or not: three pipes, and a launch that leaves nothing.

Requests go to the context, replies and log text come from it (`runner.launch` says which descriptors these are there).
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Coroutine
from typing import Protocol, TypeVar

from runner.errors import LaunchError


class PipedChild:
    """The part of `runner.launch.Child` that is about descriptors: non-blocking, and closed once."""

    def __init__(self, reader: int, writer: int, log_fd: int) -> None:
        self.reader = reader
        self.writer = writer
        self.log_fd = log_fd
        self._pipes_open = True
        self._listener: socket.socket | None = None

    def take_listener(self) -> socket.socket | None:
        listener, self._listener = self._listener, None
        return listener

    def close(self) -> None:
        if self._pipes_open:
            self._pipes_open = False
            close_all(self.reader, self.writer, self.log_fd)


def open_pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Our ends (reader, writer, log), which do not block, and theirs (requests, replies, log)."""
    request_read, request_write = os.pipe2(os.O_CLOEXEC)
    reply_read, reply_write = os.pipe2(os.O_CLOEXEC)
    log_read, log_write = os.pipe2(os.O_CLOEXEC)
    ours = reply_read, request_write, log_read
    for fd in ours:
        os.set_blocking(fd, False)
    return ours, (request_read, reply_write, log_write)


def close_all(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


class _Endable(Protocol):
    async def kill(self) -> None: ...

    def close(self) -> None: ...


_Child = TypeVar("_Child", bound=_Endable)


async def undisturbed(launch: Coroutine[None, None, _Child]) -> _Child:
    """A launch that has begun is finished and, if the caller was cancelled, undone, or parts of it would stay."""
    task = asyncio.create_task(launch)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(LaunchError):
            child = await task
            await asyncio.shield(child.kill())
            child.close()
        raise

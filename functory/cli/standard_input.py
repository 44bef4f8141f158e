"""Standard input, as bytes.

Ensures: whoever waits for it can be interrupted. It is read in a daemon thread, and not through Python's own buffer,
whose lock such a thread would still hold when the process ends. A terminal shows again what is typed, also after an
interruption.
"""

import asyncio
import os
import sys
import termios
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from functory.errors import InvalidInput

_BYTES_A_READ: Final = 256 * 1024


async def read_all() -> bytes:
    """Raises InvalidInput if it is closed."""
    return b"".join([chunk async for chunk in _chunks()])


async def read_lines() -> AsyncIterator[list[bytes]]:
    """Its lines without their ends, some at a time, as they come. Raises InvalidInput if it is closed."""
    begun: list[bytes] = []
    async for chunk in _chunks():
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join([*begun, whole[0]])
            begun.clear()
            yield [line.removesuffix(b"\r") for line in whole]
        if rest:
            begun.append(rest)
    if begun:
        yield [b"".join(begun)]


async def read_unseen(prompt: str) -> bytes:
    """A line that somebody types at the terminal, which does not show it."""
    with _without_echo(sys.stdin.fileno()):
        return await read_line(prompt)


async def read_line(prompt: str) -> bytes:
    """A line that somebody types at the terminal."""
    line = b""
    print(prompt, end="", file=sys.stderr, flush=True)
    async for chunk in _chunks():
        line += chunk
        if line.endswith(b"\n"):
            break
    return line


@contextmanager
def _without_echo(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    unseen = termios.tcgetattr(terminal)
    unseen[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, unseen)
    try:
        yield
    finally:
        # What was pasted beyond the line is dropped: the shell would run it.
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        print(file=sys.stderr)


async def _chunks() -> AsyncIterator[bytes]:
    if sys.stdin is None:
        raise InvalidInput("Standard input is closed.")
    descriptor = sys.stdin.fileno()
    while chunk := await _read(descriptor):
        yield chunk


async def _read(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[bytes] = loop.create_future()

    def tell(set_it: Callable[[Any], None], what: object) -> None:
        if not future.done():
            set_it(what)

    def read() -> None:
        try:
            told: tuple[Callable[[Any], None], object] = (future.set_result, os.read(descriptor, _BYTES_A_READ))
        except OSError as error:
            told = (future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: the command was interrupted
            loop.call_soon_threadsafe(tell, *told)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    return await future

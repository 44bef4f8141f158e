"""Commands run as a user would, against a site of the test's own event loop."""

import asyncio
import os
import pty
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO

import pytest

from functory.cli.main import main
from tests.support.command_line import clean_environ
from tests.support.web import Site


@asynccontextmanager
async def given_input(data: bytes) -> AsyncIterator[None]:
    """On standard input, for the length of the block."""

    def make() -> TextIO:
        descriptor = os.memfd_create("input")
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return os.fdopen(descriptor)

    with pytest.MonkeyPatch.context() as patch, await asyncio.to_thread(make) as file:
        patch.setattr("sys.stdin", file)
        yield


class Terminal:
    """Runs commands as a user would, with the keys of a site."""

    def __init__(self, site: Site, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._site = site
        self._capfd = capfd
        self._environ = monkeypatch
        monkeypatch.setenv("FUNCTORY_URL", site.url)
        monkeypatch.setenv("FUNCTORY_TENANT", "acme")

    async def status(self, *words: str, who: str = "acme") -> int:
        self._environ.setenv("FUNCTORY_KEY", self._site.keys[who])
        return await asyncio.to_thread(main, words)

    async def run(self, *words: str, who: str = "acme", status: int = 0) -> str:
        """What the command printed."""
        await asyncio.to_thread(self._capfd.readouterr)
        found = await self.status(*words, who=who)
        out, err = await asyncio.to_thread(self._capfd.readouterr)
        assert found == status, f"{words}: {out}{err}"
        return out + err


class AtTerminal:
    """A command whose standard input is a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, ours: int, theirs: int) -> None:
        self.process = process
        self._ours = ours
        self._theirs = theirs

    async def types(self, keys: bytes) -> None:
        await asyncio.to_thread(os.write, self._ours, keys)

    def shows_what_is_typed(self) -> bool:
        return bool(termios.tcgetattr(self._theirs)[3] & termios.ECHO)

    async def says(self, text: bytes) -> None:
        assert self.process.stderr
        await self.process.stderr.readuntil(text)

    async def end(self) -> tuple[int, bytes]:
        """Its exit status, and what else it said."""
        assert self.process.stderr
        async with asyncio.timeout(60):
            rest = await self.process.stderr.read()
            return await self.process.wait(), rest

    async def printed(self) -> bytes:
        """What it has written to standard output, after its end: little."""
        assert self.process.stdout
        return await self.process.stdout.read()


@asynccontextmanager
async def at_terminal(*words: str, url: str = "http://127.0.0.1:1", key: str = "k") -> AsyncIterator[AtTerminal]:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *("env", "--default-signal=INT"),  # tests that run in the background ignore it, and so would this
        *(sys.executable, "-m", "functory", *words),
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environ() | {"FUNCTORY_URL": url, "FUNCTORY_KEY": key, "FUNCTORY_TENANT": "acme"},
        start_new_session=True,
    )
    try:
        yield AtTerminal(process, ours, theirs)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)
        os.close(theirs)

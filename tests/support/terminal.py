"""Commands run as a user would, against a site of the test's own event loop."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO

import pytest

from functory.cli.main import main
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

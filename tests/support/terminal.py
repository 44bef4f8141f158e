"""Commands run as a user would, against a site of the test's own event loop."""

import asyncio

import pytest

from functory.cli.main import main
from tests.support.web import Site


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

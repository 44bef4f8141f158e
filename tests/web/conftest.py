"""A running service for each test."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster

from functory.web.http.endpoint import Endpoint
from tests.support.terminal import Terminal
from tests.support.web import Site, open_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as running:
        yield running


@pytest.fixture
def terminal(
    site: Site, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, blockbuster: BlockBuster
) -> Terminal:
    """A command has an event loop of its own, and may print while nobody else is in it."""
    for name in ("io.TextIOWrapper.write", "io.BufferedWriter.write"):
        blockbuster.functions[name].deactivate()
    return Terminal(site, capfd, monkeypatch)


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that went the ordinary way."""
    seen: list[str] = []
    handle = Endpoint.handle

    async def spy(self: Endpoint, request: Any, params: Any) -> Any:
        seen.append(request.path_qs)
        return await handle(self, request, params)

    monkeypatch.setattr(Endpoint, "handle", spy)
    return seen

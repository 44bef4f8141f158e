"""A running service for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.web import Site, open_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(tmp_path) as running:
        yield running

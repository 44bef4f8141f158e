"""What the suites of this folder share: a queue in this process, and one over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.queue_places import KINDS, Place, open_place


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request.param, tmp_path) as opened:
        yield opened

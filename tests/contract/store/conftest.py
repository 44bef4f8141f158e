"""An empty store of every back end in turn."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.base import Store
from store.url import open_store
from tests.support.stores import BACK_ENDS, back_end_params


@pytest.fixture(params=back_end_params())
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened

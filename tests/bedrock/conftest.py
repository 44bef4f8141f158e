"""A daemon whose clock stands still, that serves the protocol, and one connection to it. On SQLite, unless a test
is marked `on_every_store`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.bedrock import Bedrock, Session, open_bedrock
from tests.support.clocks import FakeClock
from tests.support.stores import BACK_ENDS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def bedrock(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Bedrock]:
    database = BACK_ENDS[getattr(request, "param", "sqlite")](tmp_path)
    async with database as url, open_bedrock(tmp_path, clock, store=url) as running:
        yield running


@pytest.fixture
async def session(bedrock: Bedrock) -> AsyncIterator[Session]:
    async with bedrock.session() as opened:
        yield opened

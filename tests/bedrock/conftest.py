"""A daemon whose clock stands still, that serves the protocol, and one connection to it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.bedrock import Bedrock, Session, open_bedrock
from tests.support.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def bedrock(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Bedrock]:
    async with open_bedrock(tmp_path, clock) as running:
        yield running


@pytest.fixture
async def session(bedrock: Bedrock) -> AsyncIterator[Session]:
    async with bedrock.session() as opened:
        yield opened

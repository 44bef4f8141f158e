"""An empty MongoDB database, and a store on it that shows its commands."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.mongo import MongoStore
from tests.support.mongo_commands import CommandLog
from tests.support.stores import mongo_database


@pytest.fixture
async def mongo_url(tmp_path: Path) -> AsyncIterator[str]:
    async with mongo_database(tmp_path) as url:
        yield url


@pytest.fixture
def commands() -> CommandLog:
    return CommandLog()


@pytest.fixture
async def store(mongo_url: str, commands: CommandLog) -> AsyncIterator[MongoStore]:
    async with MongoStore(mongo_url, listeners=[commands]) as opened:
        yield opened

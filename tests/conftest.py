"""Fixtures for every suite: a blocking call on the event loop fails the test; one MongoDB for the session."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from tests.support.mongo_server import MongoServer
from tests.support.mongo_server import mongo_server as run_mongo_server


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    with blockbuster_ctx() as bb:
        yield bb


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[MongoServer]:
    """Started by the first test that asks; if there is none: skips with the reason, or fails in CI."""
    with run_mongo_server() as server:
        yield server

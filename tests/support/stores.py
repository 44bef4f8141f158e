"""The back ends that the store's suites run on: one row each.

A row is an async context manager that makes an empty database and answers its store URL. To add a back
end, add its row here (and its scheme to store/url.py): the contract suite, the state machine and the
two-process tests then run on it, too.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

import store.mongo
import store.sqlite  # noqa: F401  # imported here, because an import on the event loop blocks it
from tests.support.mongo_server import shared_server

MakeDatabase = Callable[[Path], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def sqlite_database(folder: Path) -> AsyncIterator[str]:
    yield f"sqlite://{folder}/store.db"


@asynccontextmanager
async def mongo_database(folder: Path) -> AsyncIterator[str]:
    server = await asyncio.to_thread(shared_server)
    database = f"test_{uuid.uuid4().hex}"
    base, _, options = server.url.partition("?")
    yield f"{base.rstrip('/')}/{database}?{options}"
    await asyncio.to_thread(_drop, server.url, database)


def _drop(url: str, database: str) -> None:
    client: MongoClient[dict[str, Any]]
    with MongoClient(url) as client:
        client.drop_database(database)


BACK_ENDS: dict[str, MakeDatabase] = {"sqlite": sqlite_database, "mongodb": mongo_database}

SLOW = frozenset({"mongodb"})
"""Those that have a server to be started: `make check` leaves them out."""


def back_end_params() -> list[Any]:
    """The names of the back ends, as parameters of a fixture or test."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in BACK_ENDS]

"""The back ends that the store's suites run on: one row each.

A row is an async context manager that makes an empty database and answers its store URL. To add a back end, add
its row here (and its scheme to store/url.py): the contract suite, the state machine and the two-process tests
then run on it, too.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

MakeDatabase = Callable[[Path], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def sqlite_database(folder: Path) -> AsyncIterator[str]:
    yield f"sqlite://{folder}/store.db"


BACK_ENDS: dict[str, MakeDatabase] = {"sqlite": sqlite_database}

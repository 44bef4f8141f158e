"""The operator's first key, and the file that has its text.

Ensures: a key is in its file before the store knows it, and no file with a key is written over. So whoever owns the
data directory can administer the store, whatever happened in between.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from functory.operations.keys import add_key, is_administered, new_key
from functory.operations.principal import OPERATOR
from functory.operations.service import Service
from journal.durable import replace_durably, sync_folder

log = logging.getLogger("functory.daemon")

OPERATOR_KEY_FILE: Final = "operator.key"
_LOCK_FILE: Final = ".operator.key.lock"


async def keep_operator_key(service: Service, data_dir: Path) -> str:
    """If nobody can administer the store, make a key. Returns what to tell about where it is."""
    path = data_dir / OPERATOR_KEY_FILE
    if not await is_administered(service):
        async with _alone(data_dir / _LOCK_FILE):
            if await is_administered(service):  # another daemon was quicker
                return f"The operator key is in {path}"
            key, text = new_key(OPERATOR, service.now_ms(), label="first start")
            aside = await asyncio.to_thread(_write, path, text, service.now_ms())
            await add_key(service, "first start", key)
            return f"A new operator key is in {path}" + (f"; the old file is {aside.name}" if aside else "")
    if await asyncio.to_thread(path.exists):
        return f"The operator key is in {path}"
    return "The operator key is where the first daemon of this store has put it"


@asynccontextmanager
async def _alone(path: Path) -> AsyncIterator[None]:
    """Of the daemons of a data directory, which may start together, one makes the key."""
    lock = await asyncio.to_thread(os.open, path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(path: Path, text: str, now_ms: int) -> Path | None:
    """Returns where the file is now that was there: it may be the key of a store that is away for the moment."""
    aside = path.with_name(f"{path.name}.{now_ms}") if path.exists() else None
    if aside is not None:
        path.rename(aside)
        sync_folder(path.parent)
        log.warning("daemon.operator_key_aside", extra={"file": str(aside)})
    replace_durably(path, f"{text}\n".encode())
    return aside

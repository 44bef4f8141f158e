"""From a URL to a queue. The code that uses it does not change with the URL."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from functory.errors import InvalidInput
from functory.queue.link import Link
from functory.queue.queue import Queue

_LOCAL_TENANT: Final = "main"


@asynccontextmanager
async def open_queue(
    url: str,
    *,
    key: str = "",
    tenant: str = "",
    name: str = "",
    types: Sequence[str] = ("*",),
    lease_s: float | None = None,
    folder: Path | None = None,
    **settings: str,
) -> AsyncIterator[Queue]:
    """A queue for the length of the block.

    `http://host:8484` with key and tenant: a daemon elsewhere. `sqlite:///absolute/path.db`: in this process, with
    nothing else to start; tenant is `main` unless another is named, and is made. Also `mongodb://...`, with a folder
    for what this process must keep on disk. `settings` are those of a daemon in this process (`lease`, `poll`, ...).
    """
    queue = Queue(await _open_link(url, key, tenant, folder, settings), name=name, types=tuple(types), lease_s=lease_s)
    async with queue:
        yield queue


async def _open_link(url: str, key: str, tenant: str, folder: Path | None, settings: dict[str, str]) -> Link:
    if url.startswith(("http://", "https://")):
        if not key or not tenant:
            raise InvalidInput("a queue over HTTP needs key= and tenant=")
        if settings or folder:
            raise InvalidInput("settings and folder are for a queue in this process: leave them out")
        from functory.queue.remote import RemoteLink  # noqa: PLC0415 (each kind needs much that the other does not)

        return RemoteLink(url, key, tenant)
    from store.url import BACK_ENDS  # noqa: PLC0415

    if not url.startswith(tuple(f"{scheme}:" for scheme in BACK_ENDS)):
        stores = ", ".join(f"{scheme}://" for scheme in BACK_ENDS)
        raise InvalidInput(f"the URL begins with http:// or https:// (a server), or with {stores} (a store)")
    if key:
        raise InvalidInput("a queue in this process needs no key: leave it out")
    from functory.queue.in_process import InProcessLink  # noqa: PLC0415

    return await InProcessLink.open(url, tenant or _LOCAL_TENANT, folder, settings)

"""Two daemons of one store, inside the test's event loop."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations.daemons import pause_daemon
from tests.support.service import running_daemon, until


@asynccontextmanager
async def two_daemons(folder: Path, url: str = "", poll: str = "1h") -> AsyncIterator[tuple[Daemon, Daemon]]:
    """The first is paused, and both know each other."""
    url = url or f"sqlite://{folder}/store.db"
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(running_daemon(folder / name, store=url, poll=poll, lease="10m"))
            for name in ("a", "b")
        ]
        await pause_daemon(service_of(a), "test", a.sysid, paused=True)
        await until(lambda: knows(a, b))
        await until(lambda: knows(b, a))
        yield a, b


async def knows(one: Daemon, other: Daemon) -> bool:
    return other.sysid in one._parts.peers.others

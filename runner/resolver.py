"""Names to addresses that may be called, for tenants: bounded in time, in threads, and per tenant.

The system's resolver blocks for as long as a name server likes, and a tenant chooses the name server of its own names.
So a look-up has a thread of its own, never one of those that the daemon does its other work in; a tenant has few at a
time; and a thread that hangs is waited for by nobody, not even by the end of the process.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from runner.errors import TargetRefusedError
from runner.targets import UNREACHABLE, Targets

_NO_SUCH_HOST: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

LookUp = Callable[[str, int], list[str]]


def system_look_up(host: str, port: int) -> list[str]:
    """All addresses of the host, as the system orders them. Blocks."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


class Resolver:
    def __init__(
        self,
        targets: Targets,
        look_up: LookUp | None = None,
        *,
        threads: int = 32,
        per_tenant: int = 4,
        within_s: float = 10.0,
    ) -> None:
        self.targets = targets
        self._look_up = look_up or system_look_up
        self._all = asyncio.Semaphore(threads)
        self._per_tenant = per_tenant
        self._tenants: dict[str, asyncio.Semaphore] = {}
        self._using: dict[str, int] = {}
        self._within_s = within_s

    async def resolve(self, tenant: str, host: str, port: int) -> list[str]:
        """The addresses of the host: at least one, and each may be called.

        Raises TargetRefusedError, TimeoutError, OSError. No message tells an address, nor whether there is such a name.
        """
        by_name = self.targets.allows(host, port)
        if not by_name and not self.targets.networks:  # no address could make it allowed: do not even ask for one
            raise TargetRefusedError(self.targets.why_not(host, port))
        try:
            addresses = await self._addresses(tenant, host, port)
            self.targets.check(host, port, addresses)
        except TargetRefusedError:
            if by_name:
                raise
            raise TargetRefusedError(self.targets.why_not(host, port)) from None
        return addresses

    async def _addresses(self, tenant: str, host: str, port: int) -> list[str]:
        async with asyncio.timeout(self._within_s):
            await self._take(tenant)
            answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
            try:
                threading.Thread(target=self._run, args=(tenant, host, port, answer), daemon=True).start()
            except RuntimeError as error:  # the machine has no thread left
                self._give_back(tenant)
                raise OSError(str(error)) from error
            try:
                addresses = await answer
            except UnicodeError as error:
                raise TargetRefusedError(UNREACHABLE) from error
            except socket.gaierror as error:
                if error.errno not in _NO_SUCH_HOST:
                    raise
                raise TargetRefusedError(UNREACHABLE) from error
        if not addresses:
            raise TargetRefusedError(UNREACHABLE)
        return addresses

    async def _take(self, tenant: str) -> None:
        mine = self._tenants.setdefault(tenant, asyncio.Semaphore(self._per_tenant))
        self._using[tenant] = self._using.get(tenant, 0) + 1
        try:
            await mine.acquire()
        except BaseException:
            self._leave(tenant)
            raise
        try:
            await self._all.acquire()
        except BaseException:
            mine.release()
            self._leave(tenant)
            raise

    def _give_back(self, tenant: str) -> None:
        self._all.release()
        self._tenants[tenant].release()
        self._leave(tenant)

    def _leave(self, tenant: str) -> None:
        self._using[tenant] -= 1
        if not self._using[tenant]:
            del self._using[tenant], self._tenants[tenant]

    def _run(self, tenant: str, host: str, port: int, answer: "asyncio.Future[list[str]]") -> None:
        result: Any
        try:
            result = self._look_up(host, port)
        except Exception as error:  # noqa: BLE001 (whoever waits is told, whatever it was)
            result = error
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            answer.get_loop().call_soon_threadsafe(self._done, tenant, answer, result)

    def _done(self, tenant: str, answer: "asyncio.Future[list[str]]", result: list[str] | Exception) -> None:
        self._give_back(tenant)
        if answer.done():  # nobody waits any more
            return
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

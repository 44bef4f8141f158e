"""Places among what a tenant may run at once (`max_running`), for questions to its sources: they wait, and are not
refused.

Ensures: first come, first served within a tenant. The first in its line reserves the next place that becomes free, so
that neither the scheduler nor a worker fills it. The questions of a tenant hold at most half of its places, or the only
one; that one they have in turns with jobs, so that its jobs go on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from functory.execution.tenant_book import Allowance
from scheduler import Policy
from vocabulary.names import tenant_of


class _Line:
    """Of one tenant."""

    def __init__(self) -> None:
        self.first = asyncio.Lock()
        self.changed = asyncio.Event()
        self.placed = 0
        self.users = 0


class TenantPlaces:
    def __init__(self, policy: Policy, allowance_of: Callable[[str], Allowance], most: int) -> None:
        """most: questions of a tenant at once."""
        self._policy = policy
        self._allowance_of = allowance_of
        self._most = most
        self._lines: dict[str, _Line] = {}
        self.on_left: Callable[[str], None] = _nobody
        """Called with a tenant that has a cap and a place again: its jobs may start. What starts before this returns
        has the place before the next question."""
        policy.board.on_fewer = self._look

    @asynccontextmanager
    async def of(self, jobtype: str) -> AsyncIterator[None]:
        """Wait for a place. It is kept for as long as the block lasts."""
        tenant = tenant_of(jobtype)
        line = self._lines.setdefault(tenant, _Line())
        line.users += 1
        try:
            await self._enter(jobtype, tenant, line)
            try:
                yield
            finally:
                line.placed -= 1
                self._leave(jobtype, tenant)
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[tenant]

    async def _enter(self, jobtype: str, tenant: str, line: _Line) -> None:
        async with line.first:
            while line.placed >= self._most_placed(jobtype):
                await self._change(line)
            self._policy.run_outside(tenant, 1)
            try:
                while self._is_too_much(jobtype, tenant):
                    await self._change(line)
            except BaseException:
                self._leave(jobtype, tenant)
                raise
            line.placed += 1

    async def _change(self, line: _Line) -> None:
        line.changed.clear()
        await line.changed.wait()

    def _most_placed(self, jobtype: str) -> int:
        cap = self._allowance_of(jobtype).max_running
        return self._most if cap is None else min(self._most, max(1, cap // 2))

    def _is_too_much(self, jobtype: str, tenant: str) -> bool:
        allowance = self._allowance_of(jobtype)
        cap = None if allowance.is_closed else allowance.max_running  # who is closed waits for nothing
        return cap is not None and self._policy.board.running(tenant) > cap

    def _leave(self, jobtype: str, tenant: str) -> None:
        self._policy.run_outside(tenant, -1)
        if self._allowance_of(jobtype).max_running is not None:
            self.on_left(tenant)

    def _look(self, tenant: str) -> None:
        """Less of the tenant runs ("": the caps of any may be others)."""
        for line in self._lines.values() if not tenant else filter(None, [self._lines.get(tenant)]):
            line.changed.set()


def _nobody(_: str) -> None:
    """Nobody waits for that."""

"""Claims that the store is carrying out for the executor.

Ensures: what a claim takes is known. If whoever asked is cancelled meanwhile, the claim is waited for and its jobs are
given back: they were not started, so no attempt is counted.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from functory.loops.shared import Shared
from scheduler import Pick
from store.base import Job
from store.errors import StoreUnavailable


class ClaimsUnderWay:
    def __init__(self, shared: Shared, lease_ms: int, give_back: Callable[[Sequence[Job]], None]) -> None:
        self._store = shared.store
        self._owner = shared.owner
        self._progress = shared.progress
        self._lease_ms = lease_ms
        self._give_back = give_back
        self.jobs: Counter[str] = Counter()
        """That they are about to take, by type. A look may still see them as waiting."""

    async def claim(self, pick: Pick, max_per_key: int | None, tenant_created_ms: int, now_ms: int) -> list[Job]:
        """Raises StoreUnavailable."""
        self.jobs[pick.jobtype] += pick.jobs
        try:
            with self._progress.step("execute"):
                return await self._claim(pick, max_per_key, tenant_created_ms, now_ms)
        finally:
            self.jobs[pick.jobtype] -= pick.jobs
            if not self.jobs[pick.jobtype]:
                del self.jobs[pick.jobtype]

    async def _claim(self, pick: Pick, max_per_key: int | None, tenant_created_ms: int, now_ms: int) -> list[Job]:
        claiming = asyncio.ensure_future(
            self._store.claim_jobs(
                pick.jobtype,
                pick.jobs,
                owner=self._owner,
                lease_ms=self._lease_ms,
                now_ms=now_ms,
                max_per_key=max_per_key,
                tenant_created_ms=tenant_created_ms,
            )
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(StoreUnavailable):
                self._give_back(await claiming)
            raise

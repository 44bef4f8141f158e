"""Claims that the store is carrying out for the executor.

Ensures: what a claim takes is known. If whoever asked is cancelled meanwhile, the claim is waited for and its jobs are
given back: they were not started, so no attempt is counted.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from functory.loops.shared import Shared
from handlers.model import Handler
from scheduler import Pick
from store.base import ClaimedJobs, Job
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
        self._outdated: set[str] = set()
        """Types of which more came since a claim began that is under way."""

    def added(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types were added to the store, or may start now."""
        if self.jobs:
            self._outdated.update(jobtype for jobtype in jobtypes if jobtype in self.jobs)

    async def claim(self, pick: Pick, handler: Handler, tenant_created_ms: int, now_ms: int) -> ClaimedJobs:
        """When to claim again is said only if it holds for jobs that came meanwhile, too. Raises StoreUnavailable."""
        self.jobs[pick.jobtype] += pick.jobs
        try:
            with self._progress.step("execute"):
                jobs = await self._claim(pick, handler, tenant_created_ms, now_ms)
            if pick.jobtype in self._outdated:
                jobs.next_ms = None
            return jobs
        finally:
            self.jobs[pick.jobtype] -= pick.jobs
            if not self.jobs[pick.jobtype]:
                del self.jobs[pick.jobtype]
                self._outdated.discard(pick.jobtype)

    async def _claim(self, pick: Pick, handler: Handler, tenant_created_ms: int, now_ms: int) -> ClaimedJobs:
        claiming = asyncio.ensure_future(
            self._store.claim_jobs(
                pick.jobtype,
                pick.jobs,
                owner=self._owner,
                lease_ms=self._lease_ms,
                now_ms=now_ms,
                max_per_key=handler.max_per_key,
                tenant_created_ms=tenant_created_ms,
                domain=handler.domain,
            )
        )
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(StoreUnavailable):
                self._give_back(await claiming)
            raise

"""Jobs of the straight way that the store shows as running before they are over, because they take long or somebody
looks for them.

Ensures: an end never overtakes the showing of its job (`settled`), nor the other way round (ends.py); a job
that the store shows is started only while its lease holds.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from functory.execution.leases import HeldLeases, MayStart
from functory.execution.straight.arrivals import add_running
from functory.execution.straight.ends import EndsUnderWay
from functory.execution.straight.jobs import delivered, never
from functory.intake.intake import Intake
from functory.loops.deadlines import Deadline, Deadlines
from functory.loops.shared import Shared
from store.base import Job, NewJob
from store.errors import StoreUnavailable

log = logging.getLogger("functory.straight")

_SHOW_AFTER_S: Final = 0.05
"""A job that runs for longer is shown as running."""
_MANY: Final = 32
_SHOW_MANY_AFTER_S: Final = 1.0
"""Of more jobs than that which run one after the other, none has run for long."""
LOOK_AGAIN_S: Final = 0.2


class StraightShowing:
    def __init__(
        self,
        shared: Shared,
        intake: Intake,
        leases: HeldLeases,
        running: Mapping[str, NewJob],
        ending: EndsUnderWay,
        *,
        lease_ms: int,
        on_shown: Callable[[], None],
    ) -> None:
        """running: the jobs that are not in the store with their end, by id, as they are at each moment. on_shown: some
        jobs are in the store now."""
        self._store = shared.store
        self._clock = shared.clock
        self._owner = shared.owner
        self._intake = intake
        self._leases = leases
        self._running = running
        self._ending = ending
        self._lease_ms = lease_ms
        self._on_shown = on_shown
        self.under_way: dict[str, asyncio.Task[str]] = {}
        """Those that are on their way into the store as running. Changed by nobody else."""
        self.shown: dict[str, MayStart] = {}
        """Those that the store has as running, with the question whether their lease still holds. Likewise."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._few = Deadlines(_SHOW_AFTER_S, self._show_later)
        self._many = Deadlines(_SHOW_MANY_AFTER_S, self._show_later)

    def forget(self, job_id: str) -> bool:
        """It is over. Returns whether the store had it as running."""
        return self.shown.pop(job_id, None) is not None

    def watch(self, jobs: Sequence[Job]) -> Deadline[Sequence[Job]]:
        """Show them as running if they are not over in a while. To be cancelled when they are."""
        return (self._many if len(jobs) > _MANY else self._few).begin(jobs)

    def may_start(self, jobs: Iterable[Job]) -> bool:
        """Nobody else can have a job that the store does not have; the others must still hold their lease."""
        return all(self.shown[job.id]([job]) for job in jobs if job.id in self.shown) if self.shown else True

    async def show_all(self, ids: Sequence[str]) -> None:
        """Have the store show these as running, those of them that it does not have. Tried until it works."""
        while await self.show(ids):  # noqa: ASYNC110 (that the store can write again is no event)
            await asyncio.sleep(LOOK_AGAIN_S)

    async def show(self, ids: Sequence[str]) -> str:
        """Returns why it could not be done. Who asked may go away: what the store was told is noted all the same."""
        left = [id_ for id_ in self._ending.leave_out(ids) if id_ in self._running and id_ not in self.shown]
        if jobs := [self._running[job_id] for job_id in left if job_id not in self.under_way]:
            task = asyncio.create_task(self._add_running(jobs), name="add running jobs")
            task.add_done_callback(lambda _: self._over([job.id for job in jobs]))
            self._keep(task)
            self.under_way.update(dict.fromkeys([job.id for job in jobs], task))
        under_way = {self.under_way[job_id] for job_id in left}
        return next(filter(None, [await asyncio.shield(task) for task in under_way]), "") or self._ending.trouble(ids)

    async def settled(self, ids: Sequence[str]) -> None:
        """Wait while some of these are on their way into the store as running. An end of which nothing is kept could
        overtake them there, and they would come back."""
        while self.under_way and (tasks := {self.under_way[job_id] for job_id in ids if job_id in self.under_way}):
            await asyncio.wait(tasks)

    async def close(self) -> None:
        self._few.close()
        self._many.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _show_later(self, jobs: Sequence[Job]) -> None:
        self._keep(asyncio.create_task(self.show_all([job.id for job in jobs]), name="show running jobs"))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _over(self, ids: Sequence[str]) -> None:
        for job_id in ids:
            del self.under_way[job_id]

    async def _add_running(self, jobs: Sequence[NewJob]) -> str:
        now_ms = self._clock.now_ms()
        try:
            gone = await add_running(self._store, self._owner, jobs, lease_ms=self._lease_ms, now_ms=now_ms)
        except StoreUnavailable as error:
            log.warning("straight.not_shown", extra={"jobs": len(jobs), "reason": str(error)})
            return str(error)
        shown = [job for job in jobs if job.id in self._running]  # the others have ended meanwhile
        as_sent = [delivered(job, self._owner, now_ms + self._lease_ms) for job in shown if job.id not in gone]
        may_start = self._leases.claimed(as_sent, now_ms)
        self.shown.update((job.id, never if job.id in gone else may_start) for job in shown)
        await self._intake.arrived([job.id for job in jobs])
        self._on_shown()
        return ""

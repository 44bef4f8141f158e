"""Renews the leases of all jobs in hand, each well before it lapses.

Ensures: a job whose lease was refused is told so (`lost`). So is one whose lease has lapsed by our own clock because
nobody could be reached: somebody else may have it. A network that drops packets says nothing, so a renewal without an
answer is given up in time for another, over a new connection.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from functory.errors import ServerUnreachable
from functory.queue.job import Job
from functory.queue.link import Link
from functory.queue.outage import Outage
from functory.workers.values import Answer, Delivery

log = logging.getLogger("functory.queue")

_PART: Final = 3
"""A lease is renewed when a third of it has passed."""
_LEAST_S: Final = 0.2
_MOST: Final = 1000
_AGAIN_S: Final = 1.0
_SOON_S: Final = 0.05
_IDLE_S: Final = 3600.0


class Keepalive:
    def __init__(self, link: Link, lease_s: float | None) -> None:
        self._link = link
        self._lease_s = lease_s
        self._outage = Outage("queue.renew_failed", _AGAIN_S)
        self._jobs: dict[Delivery, Job] = {}
        """By delivery: one that was lost may come again while the first is still worked on."""
        self._renew_at_s: dict[Delivery, float] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def jobs(self) -> list[Job]:
        """In hand: taken, and not ended."""
        return [job for job in self._jobs.values() if not job.is_over]

    def watch(self, jobs: Iterable[Job]) -> None:
        now_s = asyncio.get_running_loop().time()
        for job in jobs:
            self._jobs[job.delivery] = job
            self._renew_at_s[job.delivery] = now_s + max(job.given.lease_s / _PART, _LEAST_S)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="keepalive")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            self._forget_ended()
            await self._renew_due(loop.time())
            next_s = min(self._renew_at_s.values(), default=loop.time() + _IDLE_S)
            try:
                async with asyncio.timeout(max(next_s - loop.time(), 0.01)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _forget_ended(self) -> None:
        for delivery in [delivery for delivery, job in self._jobs.items() if job.is_over or job.lost.is_set()]:
            del self._jobs[delivery]
            self._renew_at_s.pop(delivery, None)

    async def _renew_due(self, now_s: float) -> None:
        due = [self._jobs[delivery] for delivery, at_s in self._renew_at_s.items() if at_s <= now_s]
        for job in [job for job in due if job.until_s <= now_s]:
            self._lose(job, _why_lapsed(job))
        due = [job for job in due if not job.lost.is_set()]
        for start in range(0, len(due), _MOST):
            await self._renew(due[start : start + _MOST])

    async def _renew(self, jobs: list[Job]) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        left_s = min(job.until_s for job in jobs) - began_s
        try:
            async with asyncio.timeout(max(left_s / 2, _LEAST_S)):
                verdicts = await self._link.renew([job.delivery for job in jobs], self._lease_s)
        except Exception as error:  # noqa: BLE001 (whatever it is, the next try may do better while leases hold)
            self._outage.failed(error if str(error) else ServerUnreachable("no answer in time"))
            now_s = loop.time()
            for job in jobs:
                self._renew_at_s[job.delivery] = now_s + min(_AGAIN_S, max((job.until_s - now_s) / _PART, _SOON_S))
            return
        self._outage.over()
        for job, verdict in zip(jobs, verdicts, strict=True):
            if job.is_over:
                continue
            if verdict.answer is Answer.OK:
                length_s = self._lease_s or job.given.lease_s
                job.until_s = min(began_s + length_s, job.last_until_s)
                self._renew_at_s[job.delivery] = (
                    job.until_s  # no renewal would make it longer
                    if job.until_s == job.last_until_s
                    else began_s + max(length_s / _PART, _LEAST_S)
                )
            elif job.is_ending or verdict.answer in (Answer.FIXED, Answer.TIMED_OUT):
                self._renew_at_s[job.delivery] = (
                    job.until_s
                )  # it ends by then; if it has ended already, its report tells
            else:
                self._lose(job, verdict.message)

    def _lose(self, job: Job, reason: str) -> None:
        if not job.is_over:
            log.warning("queue.lease_lost", extra={"id": job.id, "reason": reason})
            job.lost.set()
        self._renew_at_s.pop(job.delivery, None)
        self._jobs.pop(job.delivery, None)


def _why_lapsed(job: Job) -> str:
    if job.until_s >= job.last_until_s:
        return f"it was held for {job.given.timeout_s:g} s, the timeout_s of its type"
    return "it was not renewed in time" if job.given.is_renewable else "the time of its fixed lease is over"

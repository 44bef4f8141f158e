"""Waiting for jobs, without silence: `functory job wait`, and `job add --wait`."""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Final

from functory.cli.answers import reason
from functory.cli.job_views import results_table, show_progress
from functory.cli.progress import Progress
from functory.cli.remote import print_json
from functory.client import Client, ClientError
from functory.wire.jobs import Job

_LOOK_S: Final = 5.0
_LOOK_WHILE_IT_RUNS_S: Final = 0.5
"""How long to wait for a job before saying why it has not ended."""
_AT_ONCE: Final = 50
"""Jobs that are waited for side by side: one that is not kept is heard of only by who waits when it ends."""
_GONE: Final = 404


async def show_ended(client: Client, ids: Sequence[str], arguments: argparse.Namespace) -> int:
    """Wait for jobs that were just added, and show them. Those that ended unseen and are not kept are named, and say
    nothing against the others: nobody was to look at them again."""
    jobs = await _Waiting(client, len(ids), arguments.timeout_s).of(ids)
    gone = {"state": "ended, not kept"}
    answer = [{"id": job_id, **gone} if job is None else job for job_id, job in jobs.items()]
    print_json(answer) if arguments.json else print(results_table(jobs))
    return 0 if all(job is None or (job.state == "archived" and job.code == "ok") for job in jobs.values()) else 1


async def until_ended(client: Client, job_id: str, timeout_s: float | None) -> Job:
    """The job once it has ended, or as it is when the time is up. Says on standard error what is being waited for,
    whenever that changes."""
    return await _Waiting(client, 1, timeout_s).for_one(job_id)


class _Waiting:
    def __init__(self, client: Client, count: int, timeout_s: float | None) -> None:
        self._client = client
        self._progress = Progress("ended", count)
        self._deadline_s = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        self._told = ""
        self._done = 0

    async def of(self, ids: Sequence[str]) -> dict[str, Job | None]:
        """None for a job that is gone."""
        left, jobs = iter(ids), dict[str, Job | None].fromkeys(ids)

        async def wait() -> None:
            for job_id in left:
                try:
                    jobs[job_id] = await self.for_one(job_id)
                except ClientError as error:
                    if error.status != _GONE:
                        raise
                self._done += 1
                self._progress.at(self._done)

        with self._progress:
            await asyncio.gather(*(wait() for _ in range(min(_AT_ONCE, len(ids)))))
        return jobs

    async def for_one(self, job_id: str) -> Job:
        look_s, clock = _LOOK_S, asyncio.get_running_loop().time
        while True:
            left_s = look_s if self._deadline_s is None else min(look_s, max(self._deadline_s - clock(), 0.0))
            job = await self._client.get_job(job_id, wait_s=left_s)
            is_late = self._deadline_s is not None and clock() >= self._deadline_s
            if job.state == "archived":
                return job
            why = await self._client.why(job_id)
            text = reason(why)
            if job.progress is not None:
                text, look_s = show_progress(job.progress), _LOOK_WHILE_IT_RUNS_S
            if text != self._told and why.state != "archived":
                self._told = text
                self._progress.say(f"Waiting for {job_id}: {text}")
            if is_late:
                return job

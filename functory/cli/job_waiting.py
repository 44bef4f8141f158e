"""Waiting for jobs, without silence: `functory job wait`, and `job add --wait`."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Final, TypeVar

from functory.cli.answers import counted, reason
from functory.cli.job_views import results_table, show_job, show_progress, shown_state
from functory.cli.progress import Progress
from functory.cli.remote import print_json
from functory.client import Client, ClientError
from functory.client.jobs import MOST_AT_ONCE
from functory.errors import NotReadyYet, ServerUnreachable
from functory.wire.jobs import Job

_LOOK_S: Final = 5.0
_LOOK_WHILE_IT_RUNS_S: Final = 0.5
"""How long to wait for a job before saying why it has not ended."""
_GONE: Final = 404
_ENDED_BADLY: Final = 1
_TIME_IS_UP: Final = 9
"""Exit codes (docs/cli.md)."""
_MOST_NAMED: Final = 5
_TOO_MANY: Final = 429
_AWAY_S: Final = 60.0
"""How long a server that has answered before may be away: it is being restarted, perhaps."""
_PAUSE_S: Final = 1.0
_T = TypeVar("_T")


async def show_ended(
    client: Client, ids: Sequence[str], arguments: argparse.Namespace, *, may_be_gone: bool = False
) -> int:
    """Wait for jobs, and show them. may_be_gone: they were just added, so those that are not there have ended unseen
    and are not kept. That says nothing against the others: nobody was to look at them again."""
    jobs = await _Waiting(client, ids, arguments.timeout_s, was_reached=may_be_gone).all()
    gone = "ended, not kept" if may_be_gone else "not there"
    answer = [{"id": job_id, "state": gone} if job is None else job for job_id, job in jobs.items()]
    print_json(answer) if arguments.json else print(results_table(jobs, gone))
    code = _exit_code([job for job in jobs.values() if job is not None], arguments.timeout_s)
    return code if may_be_gone or None not in jobs.values() else _ENDED_BADLY


async def show_one_ended(client: Client, job_id: str, arguments: argparse.Namespace) -> int:
    """Wait for one job, and show all that is known of it."""
    job = await until_ended(client, job_id, arguments.timeout_s)
    show_job(job, as_json=arguments.json)
    return _exit_code([job], arguments.timeout_s)


async def until_ended(client: Client, job_id: str, timeout_s: float | None) -> Job:
    """The job once it has ended, or as it is when the time is up. Says on standard error what is being waited for,
    whenever that changes."""
    return await _Waiting(client, [job_id], timeout_s).for_one(job_id)


def _exit_code(jobs: Sequence[Job], timeout_s: float | None) -> int:
    """Of a command that waited for jobs and shows them. Those that go on are told, and what to do about it."""
    unended = [job for job in jobs if job.state != "archived"]
    if unended:
        _tell_unended(unended, timeout_s or 0.0)
    if any(job.state == "archived" and job.code != "ok" for job in jobs):
        return _ENDED_BADLY
    return _TIME_IS_UP if unended else 0


def _tell_unended(jobs: Sequence[Job], timeout_s: float) -> None:
    command = _command([job.id for job in jobs])
    if len(jobs) == 1:
        text = f"{jobs[0].id} is still {shown_state(jobs[0])} after {timeout_s:g} s; it goes on: {command}"
    else:
        text = f"{counted(len(jobs), 'job')} have not ended after {timeout_s:g} s; they go on: {command}"
    print(f"functory: {text}", file=sys.stderr)


def _command(ids: Sequence[str]) -> str:
    return f"functory job wait {' '.join([*ids[:_MOST_NAMED], *(['...'] if len(ids) > _MOST_NAMED else [])])}"


class _Waiting:
    """Says on standard error what keeps the first of its jobs that have not ended."""

    def __init__(
        self, client: Client, ids: Sequence[str], timeout_s: float | None, *, was_reached: bool = False
    ) -> None:
        self._client = client
        self._was_reached = was_reached
        self._progress = Progress("ended", len(ids))
        self._deadline_s = inf if timeout_s is None else _now_s() + timeout_s
        self._left = dict.fromkeys(ids)
        self._told = ""

    async def all(self) -> dict[str, Job | None]:
        """None for a job that is gone."""
        jobs = dict[str, Job | None].fromkeys(self._left)
        look_s = _LOOK_S
        with self._progress:
            while self._left:
                left_s = self._deadline_s - _now_s()
                some = list(islice(self._left, MOST_AT_ONCE))
                wait_s = min(look_s, max(left_s, 0.0))
                answer = await self._patiently(partial(self._client.get_jobs, some, wait_s=wait_s))
                jobs.update({job.id: await self._whole(job) for job in answer.jobs})
                over = [*answer.gone, *(job.id for job in answer.jobs if left_s <= 0 or job.state == "archived")]
                for job_id in over:
                    del self._left[job_id]
                self._progress.at(len(jobs) - len(self._left))
                first = next((job for job in answer.jobs if job.id in self._left), None)
                if first is not None:
                    look_s = await self._tell(first)
                elif left_s <= 0 and not over:  # whether they are there cannot be told yet: this says why
                    jobs[some[0]] = await self._client.get_job(some[0])
                    del self._left[some[0]]
        return jobs

    async def _whole(self, job: Job) -> Job:
        """With what was too large to come with others."""
        if job.payload is not None or job.state != "archived":
            return job
        try:
            return await self._patiently(partial(self._client.get_job, job.id))
        except ClientError as error:
            if error.status != _GONE:
                raise
            return job

    async def for_one(self, job_id: str) -> Job:
        look_s = _LOOK_S
        while True:
            job = await self._patiently(partial(self._look, job_id, look_s))
            is_late = _now_s() >= self._deadline_s
            if job.state == "archived":
                return job
            look_s = await self._tell(job)
            if is_late:
                return job

    async def _look(self, job_id: str, look_s: float) -> Job:
        return await self._client.get_job(job_id, wait_s=min(look_s, max(self._deadline_s - _now_s(), 0.0)))

    async def _tell(self, job: Job) -> float:
        """Says what keeps it. Returns how long to wait until the next look."""
        why = await self._patiently(partial(self._client.why, job.id))
        text = reason(why) if job.progress is None else show_progress(job.progress)
        if text != self._told and why.state != "archived":
            self._told = text
            self._progress.say(f"Waiting for {job.id}: {text}")
        return _LOOK_S if job.progress is None else _LOOK_WHILE_IT_RUNS_S

    async def _patiently(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """As long as there is time: many ask at once, a daemon that did not accept a job may not know it yet, and one
        that is restarted is away for a moment."""
        away_s = inf
        while True:
            try:
                answer = await ask()
            except ClientError as error:
                is_passing = error.status == _TOO_MANY or error.error_code == NotReadyYet.code
                pause_s = error.retry_after_s or _PAUSE_S
                if not is_passing or _now_s() + pause_s > self._deadline_s:
                    raise
            except ServerUnreachable as error:
                pause_s = _PAUSE_S
                if not self._was_reached:
                    raise
                if away_s == inf:
                    away_s = _now_s()
                    self._progress.say(f"{error}; trying again")
                if _now_s() + pause_s > min(away_s + _AWAY_S, self._deadline_s):
                    raise ServerUnreachable(
                        f"{error}; what it has accepted goes on: {_command(list(self._left))}"
                    ) from None
            else:
                self._was_reached = True
                return answer
            await asyncio.sleep(pause_s)


def _now_s() -> float:
    return asyncio.get_running_loop().time()

"""One job in hand, for a plain function that runs in a thread: what the loop does, the function waits for.

How the job ends, it says by what it returns or raises.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from functory.errors import InvalidInput, LeaseLost
from functory.queue.job import Job


class ThreadJob:
    def __init__(self, job: Job) -> None:
        """On the loop of the job."""
        self._job = job
        self._loop = asyncio.get_running_loop()

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def type(self) -> str:
        return self._job.type

    @property
    def payload(self) -> bytes:
        return self._job.payload

    @property
    def text(self) -> str:
        return self._job.text

    def json(self) -> Any:
        return self._job.json()

    @property
    def attempts(self) -> int:
        """This attempt's number, from 1."""
        return self._job.attempts

    @property
    def children(self) -> Sequence[Mapping[str, Any]]:
        """As `Job.children`."""
        return self._job.children

    @property
    def follows(self) -> Mapping[str, str] | None:
        """As `Job.follows`."""
        return self._job.follows

    @property
    def is_lost(self) -> bool:
        """Whether the lease is gone, or the job was given back: somebody else may work on it by now. Nothing stops the
        function: it should return."""
        return self._job.lost.is_set() or self._job.is_over

    def progress(self, value: object) -> None:
        """How far it has come: a number is a percentage. If nobody can be told, the log says so. Raises LeaseLost."""
        self._wait_for(self._job.progress(value))

    def log(self, text: str) -> None:
        """Lines for its log, of which the last are kept. If nobody can be told now, the log of this program says so.
        Raises LeaseLost."""
        self._wait_for(self._job.log(text))

    def add(self, job_type: str, payload: object, **options: object) -> None:
        """As `Job.add`."""
        self._job.add(job_type, payload, **options)

    def _wait_for(self, step: Coroutine[Any, Any, None]) -> None:
        try:
            said = asyncio.run_coroutine_threadsafe(step, self._loop)
        except RuntimeError as error:  # the loop is closed
            step.close()
            raise LeaseLost(f"job {self.id}: the worker has stopped") from error
        try:
            said.result()
        except InvalidInput as error:
            if not self._job.is_over:
                raise
            raise LeaseLost(f"job {self.id} was given back") from error

"""Running a handler outside the queue: to check its text, or to try it once."""

from collections.abc import Callable
from typing import Final, NamedTuple

from functory.tenantbook import Allowance, permitted
from handlers.model import Handler
from runner.errors import ContextEndedError, IsolationError
from runner.outcome import Stopped
from runner.runner import Runner

_TRIES: Final = 3


class _Trial(NamedTuple):
    id: str
    data: bytes
    attempts: int = 1


class Workbench:
    """Implements `functory.seams.Bench`. `refusal` is why no tenant code may run on this daemon, or empty."""

    def __init__(self, runner: Runner, allowance_of: Callable[[str], Allowance], refusal: str) -> None:
        self._runner = runner
        self._allowance_of = allowance_of
        self._refusal = refusal

    async def check(self, jobtype: str, handler: Handler) -> None:
        self._require_isolation()
        await self._runner.check(jobtype, permitted(handler, self._allowance_of(jobtype)))

    async def invoke(self, jobtype: str, handler: Handler, payload: bytes) -> Stopped:
        self._require_isolation()
        stopped: list[Stopped] = []
        trial = [_Trial("invoke", payload)]
        for _ in range(_TRIES):  # a context that ends before it has begun gives the job back
            await self._runner.run_jobs(jobtype, trial, permitted(handler, self._allowance_of(jobtype)), stopped.extend)
            if stopped:
                return stopped[0]
        raise ContextEndedError(f"the context ended before the handler began, {_TRIES} times in a row")

    async def retire(self, jobtype: str, handler: Handler) -> None:
        await self._runner.retire(jobtype, permitted(handler, self._allowance_of(jobtype)))

    def _require_isolation(self) -> None:
        if self._refusal:
            raise IsolationError(self._refusal)

"""Runs a handler outside the queue: to check its text, to try it once, or to ask it for a consumer.

Such runs take no slot and leave the slots their contexts. They count as running of their tenant, have a bound of their
own for each tenant and in all, and end with their tenant. A try that finds no place is refused; a question waits.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from functory.errors import Forbidden, QuotaExceeded
from functory.execution.tenant_book import Allowance, permitted
from functory.execution.tenant_places import TenantPlaces
from functory.loops.tenant_turns import TenantTurns
from handlers.model import Handler
from runner import outcome
from runner.errors import ContextEndedError, IsolationError, SecretsLockedError
from runner.outcome import Stopped
from runner.runner import Runner
from scheduler import Policy
from vocabulary.names import tenant_of

_TRIES: Final = 3
_MOST_OF_ONE: Final = 2
"""Checks of a tenant at once, and tries, and questions."""
_MOST_QUESTION_S: Final = 60.0
"""A source has no longer than this for an answer: it keeps a seat from others."""
_ID: Final = "invoke"
_TOKEN_BYTES: Final = 8
"""Of the id of each run, behind that. It is no job, so nobody who may look at jobs, or cancel them, can name it."""


class _Trial(NamedTuple):
    id: str
    data: bytes
    attempts: int = 1
    options: str = ""


class TrialRuns:
    """Implements `operations.protocols.TrialRuns`. `refusal` says why no tenant code may run on this daemon;
    empty if it may. `seats` is how many contexts such runs may have at once."""

    def __init__(
        self, runner: Runner, allowance_of: Callable[[str], Allowance], policy: Policy, *, refusal: str, seats: int = 1
    ) -> None:
        self._runner = runner
        self._allowance_of = allowance_of
        self._policy = policy
        self._refusal = refusal
        self._seats = asyncio.Semaphore(max(seats, 1))
        self._invokes: dict[str, int] = {}
        self._checks = TenantTurns(self._seats, _MOST_OF_ONE)
        self.questions = TenantPlaces(policy, allowance_of, _MOST_OF_ONE)

    async def check(self, jobtype: str, handler: Handler) -> None:
        """Those of a tenant wait for each other: a check is short."""
        self._require_isolation()
        async with self._checks.of(tenant_of(jobtype)):
            allowance = self._allowance_of(jobtype)
            await self._runner.check(jobtype, permitted(handler, allowance), incarnation=allowance.incarnation)

    async def invoke(self, jobtype: str, handler: Handler, payload: bytes, *, check: bool = False) -> Stopped:
        """Raises Forbidden for a tenant that is suspended, or gone when there is a seat, QuotaExceeded when as much of
        it runs as may, SecretsLockedError if its secrets cannot be opened here; with `check` what `check` raises,
        first. Cancelling it ends the context.
        """
        allowance = self._admitted(jobtype)
        tenant = tenant_of(jobtype)
        self._count(tenant, allowance.max_running)
        try:
            if check:
                await self.check(jobtype, handler)
            async with self._seats:
                if self._admitted(jobtype).incarnation != allowance.incarnation:
                    raise Forbidden("the tenant is gone: nothing of it runs")
                return await self._run(jobtype, handler, payload, allowance, lambda: True)
        finally:
            self._uncount(tenant)

    async def ask(self, jobtype: str, find: Callable[[], Awaitable[Handler]], payload: bytes) -> Stopped:
        """As `invoke`, for a consumer: it waits for a place, and has a minute at most when it has one. `find` is called
        then: what it finds is in force when it runs."""
        self._admitted(jobtype)
        async with self.questions.of(jobtype), self._seats:
            allowance = self._admitted(jobtype)
            handler = await find()
            if handler.timeout_s <= _MOST_QUESTION_S:
                return await self._run(jobtype, handler, payload, allowance, lambda: True)
            return await self._run_a_minute(jobtype, handler, payload, allowance)

    async def _run_a_minute(self, jobtype: str, handler: Handler, payload: bytes, allowance: Allowance) -> Stopped:
        """From the moment in which it has a context. The handler stays as it is: its version is how `retire` finds the
        context."""
        now_s = asyncio.get_running_loop().time
        bound = asyncio.timeout(None)

        def begin() -> bool:
            bound.reschedule(now_s() + _MOST_QUESTION_S)
            return True

        try:
            async with bound:
                return await self._run(jobtype, handler, payload, allowance, begin)
        except TimeoutError:
            if not bound.expired():
                raise
            code, text = outcome.TIMED_OUT, f"timed out after {_MOST_QUESTION_S:g} s".encode()
            return Stopped(_ID, outcome.name_of(code), code, text, b"", _MOST_QUESTION_S * 1000, (), self._runner.level)

    async def _run(
        self, jobtype: str, handler: Handler, payload: bytes, allowance: Allowance, may_start: Callable[[], bool]
    ) -> Stopped:
        stopped: list[Stopped] = []
        trial = [_Trial(f"{_ID}-{secrets.token_hex(_TOKEN_BYTES)}", payload)]
        for _ in range(_TRIES):  # a context that ends before it starts the job gives it back
            await self._runner.run_jobs(
                jobtype,
                trial,
                permitted(handler, allowance),
                stopped.extend,
                may_start,
                incarnation=allowance.incarnation,
            )
            if stopped:
                return stopped[0]
            if locked := self._runner.why_locked(jobtype, handler):
                raise SecretsLockedError(locked)
        raise ContextEndedError(f"the context ended before the handler began, {_TRIES} times in a row")

    def _admitted(self, jobtype: str) -> Allowance:
        self._require_isolation()
        allowance = self._allowance_of(jobtype)
        if allowance.is_closed:
            raise Forbidden("the tenant is suspended: nothing of it runs")
        return allowance

    async def retire(self, jobtype: str, handler: Handler) -> None:
        await self._runner.retire(jobtype, permitted(handler, self._allowance_of(jobtype)))

    def _count(self, tenant: str, max_running: int | None) -> None:
        invokes = self._invokes.get(tenant, 0)
        if invokes >= _MOST_OF_ONE:
            raise QuotaExceeded(
                f"{_MOST_OF_ONE} invocations of this tenant are under way: wait for one to end",
                detail={"quota": "invocations", "limit": _MOST_OF_ONE},
            )
        if max_running is not None and self._policy.board.running(tenant) >= max_running:
            raise QuotaExceeded(
                f"{max_running} handlers of this tenant run, and it may have no more: wait for one to end",
                detail={"quota": "max_running", "limit": max_running},
            )
        self._invokes[tenant] = invokes + 1
        self._policy.run_outside(tenant, 1)

    def _uncount(self, tenant: str) -> None:
        self._policy.run_outside(tenant, -1)
        self._invokes[tenant] -= 1
        if not self._invokes[tenant]:
            del self._invokes[tenant]

    def _require_isolation(self) -> None:
        if self._refusal:
            raise IsolationError(self._refusal)

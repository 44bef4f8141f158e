"""Whether jobs of a type may start, as the store said a moment ago: its handler, its pause, its tenant's suspension.
The gate of a type that this daemon does not run, such as one that workers serve, is closed, and so is that of one whose
jobs need tokens, and of a name which the store refuses.

Asked for many types at once, and only for types of which jobs arrive. What this daemon itself changes is forgotten at
once; what another daemon changes is seen after `life_s` at the latest.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import Final

from store.base import Store, TypeGate
from store.errors import InvalidValue, StoreError
from store.names import MAX_BATCH
from vocabulary.clock import Clock
from vocabulary.names import tenant_of

log = logging.getLogger("functory.gates")

_MOST_KNOWN: Final = 20_000
_RENEWED: Final = 0.25
"""The part of its life in which an answer that is used is renewed: jobs that come all the time wait for none."""
_UNKNOWN: Final = (None, -inf)
_PAUSE_S: Final = 0.05
"""After a question that the store could not answer."""


class TypeGates:
    def __init__(
        self, store: Store, clock: Clock, life_s: float, may_start: Callable[[str, int], Awaitable[bool]]
    ) -> None:
        """may_start: whether jobs of a version of a handler may. Asked once for each."""
        self._store = store
        self._may_start = may_start
        self._may: dict[str, tuple[int, bool]] = {}
        """By type: the version in force when it was asked, and the answer."""
        self._clock = clock
        self._life_s = life_s
        self._known: dict[str, tuple[TypeGate, float]] = {}
        """With the time until which it holds."""
        self._wanted: dict[str, None] = {}
        self._asked: frozenset[str] = frozenset()
        """What the question is about that is under way."""
        self._asking: asyncio.Task[None] | None = None
        self._changed: set[str] = set()
        """Tenants of which something has changed since the question that is under way; "" for all. What is said of them
        may be old."""
        self._listener: Callable[[Iterable[str]], None] = lambda _: None

    def when_known(self, listener: Callable[[Iterable[str]], None]) -> None:
        """The listener is told the types that were asked for, whether or not the store has answered."""
        self._listener = listener

    def ask(self, jobtype: str) -> TypeGate | None:
        """None: the store is asked for it now. One that will be old soon is asked for again meanwhile."""
        gate, until_s = self._known.get(jobtype, _UNKNOWN)
        left_s = until_s - self._clock.monotonic_s()
        if left_s <= _RENEWED * self._life_s:
            self.want(jobtype)
        return gate if left_s > 0 else None

    def want(self, jobtype: str) -> None:
        """Ask for it, together with the others that are wanted."""
        if jobtype in self._asked:
            return  # what has changed since the question is asked for again
        self._wanted[jobtype] = None
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="gates of types")

    def forget(self, tenant: str = "") -> None:
        """Something of the tenant, or of any, has changed."""
        self._changed.add(tenant)
        for known in (self._known, self._may):
            for jobtype in [name for name in known if not tenant or tenant_of(name) == tenant]:
                del known[jobtype]

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        try:
            while self._wanted:
                jobtypes = list(self._wanted)[:MAX_BATCH]
                for jobtype in jobtypes:
                    del self._wanted[jobtype]
                self._asked = frozenset(jobtypes)
                await self._ask_for(jobtypes)
                self._asked = frozenset()
                self._listener(jobtypes)
        finally:
            self._asking, self._asked = None, frozenset()

    async def _as_run_here(self, gate: TypeGate) -> TypeGate:
        if not gate.is_open or not gate.handler_version:
            return gate
        version, is_run = self._may.get(gate.jobtype, (0, True))
        if version != gate.handler_version:
            is_run = await self._may_start(gate.jobtype, gate.handler_version)
            self._may.pop(gate.jobtype, None)
            self._may[gate.jobtype] = (gate.handler_version, is_run)
            if len(self._may) > _MOST_KNOWN:
                del self._may[next(iter(self._may))]
        return gate if is_run else gate._replace(is_open=False)

    async def _read(self, jobtypes: list[str]) -> list[TypeGate]:
        """A name that the store refuses costs the others nothing but some more questions."""
        try:
            return await self._store.get_type_gates(jobtypes)
        except InvalidValue as error:
            if half := len(jobtypes) // 2:
                return [*await self._read(jobtypes[:half]), *await self._read(jobtypes[half:])]
            log.warning("gates.refused", extra={"jobtype": jobtypes[0][:200], "reason": str(error)[:200]})
            return [TypeGate(jobtypes[0], handler_version=0, is_open=False)]

    async def _ask_for(self, jobtypes: list[str]) -> None:
        self._changed.clear()
        until_s = self._clock.monotonic_s() + self._life_s
        try:
            gates = [await self._as_run_here(gate) for gate in await self._read(jobtypes)]
        except StoreError as error:
            log.warning("gates.store_unavailable", extra={"reason": str(error)})
            await asyncio.sleep(_PAUSE_S)
            return
        for gate in gates:
            if self._changed and not self._changed.isdisjoint(("", tenant_of(gate.jobtype))):
                self._wanted[gate.jobtype] = None
                continue
            self._known.pop(gate.jobtype, None)
            self._known[gate.jobtype] = (gate, until_s)
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

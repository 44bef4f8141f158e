"""Which workers of a tenant were seen, when, and what they take: as they asked this daemon.

Every few seconds it is written down as a note for the other daemons, which read it when somebody asks. It is shown and
decides nothing. Bounded by tenant and in all.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from functory.loops.shared import Shared
from functory.workers.pace import Pace
from functory.workers.values import Order
from store.errors import StoreUnavailable

KEPT_MS: Final = 3_600_000
_MOST_OF_ONE: Final = 200
_MOST_TENANTS: Final = 1000
_TYPES_CHARS: Final = 500
"""Of the patterns of one worker, so much is kept: the note of a tenant stays well below what a note may be."""
_AT_ONCE: Final = 50
_AGAIN_S: Final = 15.0
"""Of workers that only wait, the note is written again after this time."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, as it last asked."""

    name: str
    host: str = ""
    version: str = ""
    capacity: int = 1
    types: list[str] = []
    asked_ms: int = 0
    """When it last asked for jobs, or waited for some."""
    running: int = 0
    per_minute: float = 0.0
    """Jobs that it has ended, of those that it took from this daemon."""
    daemon: str = ""
    is_draining: bool = False


_NOTE: Final = msgspec.json.Decoder(list[Seen])


def note_key(tenant: str, sysid: str) -> str:
    return f"workers.{tenant}.{sysid}"


class Presence:
    def __init__(
        self, shared: Shared, running: Callable[[str], Mapping[str, int]], since_ms: Callable[[str], int]
    ) -> None:
        """running: how many jobs of a tenant each worker holds. since_ms: when a tenant was created."""
        self._store = shared.store
        self._clock = shared.clock
        self._sysid = shared.owner
        self._running = running
        self._since_ms = since_ms
        self._workers: dict[str, dict[str, Seen]] = {}
        self._paces: dict[tuple[str, str], Pace] = {}
        """Of those that have ended a job: tenant and name."""
        self._changed: set[str] = set()
        self._written_s: dict[str, float] = {}
        """When the note of a tenant was last written."""
        self._waiting: Counter[tuple[str, str]] = Counter()
        """Workers that wait for jobs now: tenant and name."""

    @contextmanager
    def asking(self, order: Order) -> Iterator[None]:
        """A worker asks for jobs, and waits for them as long as the block lasts."""
        who = (order.tenant, order.worker.name)
        self._asks(order)
        self._waiting[who] += 1
        try:
            yield
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]
            if order.worker.name in self._workers.get(order.tenant, {}):  # it has not said goodbye meanwhile
                self._asks(order)

    def _asks(self, order: Order) -> None:
        workers = self._of(order.tenant)
        name = order.worker.name
        workers.pop(name, None)
        now_ms = self._clock.now_ms()
        workers[name] = Seen(
            name=name,
            host=order.worker.host,
            version=order.worker.version,
            capacity=order.worker.capacity,
            types=_shortened(order.patterns),
            asked_ms=now_ms,
            daemon=self._sysid,
        )
        if len(workers) > _MOST_OF_ONE:
            self._forget(order.tenant, next(iter(workers)))
        self._changed.add(order.tenant)

    def worked(self, tenant: str, name: str, count: int) -> None:
        """It has ended so many jobs."""
        if name in self._workers.get(tenant, {}):
            self._paces.setdefault((tenant, name), Pace()).add(count, self._clock.now_ms())
            self._changed.add(tenant)

    def tenants(self) -> list[str]:
        """Those whose workers were seen here."""
        return list(self._workers)

    def left(self, tenant: str, name: str, at_ms: int | None = None) -> None:
        """It said goodbye: now, or then, and may have come again since."""
        seen = self._workers.get(tenant, {}).get(name)
        if seen is not None and (at_ms is None or (seen.asked_ms <= at_ms and (tenant, name) not in self._waiting)):
            self._forget(tenant, name)
            self._changed.add(tenant)

    def here(self, tenant: str) -> list[Seen]:
        """Those that were seen by this daemon in the last hour."""
        now_ms, oldest_ms, running = self._clock.now_ms(), self._oldest_ms(tenant), self._running(tenant)
        found: list[Seen] = []
        for seen in self._workers.get(tenant, {}).values():
            is_waiting = (tenant, seen.name) in self._waiting
            asked_ms = now_ms if is_waiting else seen.asked_ms
            if asked_ms >= oldest_ms:
                count, pace = running.get(seen.name, 0), self._paces.get((tenant, seen.name))
                per_minute = 0.0 if pace is None else pace.per_minute(now_ms)
                found.append(msgspec.structs.replace(seen, running=count, per_minute=per_minute, asked_ms=asked_ms))
        return found

    async def everywhere(self, tenant: str) -> list[Seen]:
        """Those that any living daemon saw in the last hour, each as it was seen last, in order of their names."""
        now_ms, oldest_ms = self._clock.now_ms(), self._oldest_ms(tenant)
        latest = {seen.name: seen for seen in self.here(tenant)}
        for daemon in await self._store.list_daemons(now_ms=now_ms):
            if daemon.sysid == self._sysid:
                continue
            note = await self._store.get_note(note_key(tenant, daemon.sysid), now_ms=now_ms)
            for seen in _read(note):
                known = latest.get(seen.name)
                if seen.asked_ms >= oldest_ms and (known is None or known.asked_ms < seen.asked_ms):
                    latest[seen.name] = seen
        return [latest[name] for name in sorted(latest)]

    async def write_down(self) -> None:
        """Tell the other daemons what has changed here since the last time."""
        now_s = self._clock.monotonic_s()
        waiting = {tenant for tenant, _ in self._waiting}
        changed = sorted(
            self._changed | {it for it in waiting if now_s - self._written_s.get(it, -_AGAIN_S) >= _AGAIN_S}
        )
        self._changed.clear()
        self._written_s = {it: at_s for it, at_s in self._written_s.items() if it in waiting} | dict.fromkeys(
            changed, now_s
        )
        for start in range(0, len(changed), _AT_ONCE):  # side by side, so that they share commits
            await asyncio.gather(*map(self._write_down, changed[start : start + _AT_ONCE]))

    async def _write_down(self, tenant: str) -> None:
        expires_ms = self._clock.now_ms() + KEPT_MS
        try:
            await self._store.put_note(
                note_key(tenant, self._sysid), msgspec.json.encode(self.here(tenant)), expires_ms=expires_ms
            )
        except StoreUnavailable:
            self._changed.add(tenant)
            raise

    def _oldest_ms(self, tenant: str) -> int:
        """Who asked before is not shown: it is long gone, or was another's who had the tenant's name."""
        return max(self._clock.now_ms() - KEPT_MS, self._since_ms(tenant))

    def _of(self, tenant: str) -> dict[str, Seen]:
        workers = self._workers.pop(tenant, {})
        self._workers[tenant] = workers
        if len(self._workers) > _MOST_TENANTS:
            oldest = next(iter(self._workers))
            for name in list(self._workers[oldest]):
                self._forget(oldest, name)
            del self._workers[oldest]
        return workers

    def _forget(self, tenant: str, name: str) -> None:
        del self._workers[tenant][name]
        self._paces.pop((tenant, name), None)


def _shortened(patterns: Iterable[str]) -> list[str]:
    kept: list[str] = []
    chars = 0
    for pattern in patterns:
        chars += len(pattern)
        if chars > _TYPES_CHARS:
            break
        kept.append(pattern)
    return kept


def _read(note: bytes | None) -> Iterable[Seen]:
    try:
        return _NOTE.decode(note) if note else ()
    except (msgspec.MsgspecError, UnicodeDecodeError):  # of another version
        return ()

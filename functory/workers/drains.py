"""Workers that were asked to take no more jobs, by name, for an hour.

A note of the tenant tells the other daemons, which look at it every few seconds. A drained worker that asks gets
nothing, and is told; it should end what it has and stop.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from functory.errors import QuotaExceeded
from functory.loops.shared import Shared

DRAINED_MS: Final = 3_600_000
_MOST: Final = 200
_NOTE: Final = msgspec.json.Decoder(dict[str, int])


class Drains:
    def __init__(self, shared: Shared, since_ms: Callable[[str], int]) -> None:
        """since_ms: when a tenant was created."""
        self._store = shared.store
        self._clock = shared.clock
        self._since_ms = since_ms
        self._until_ms: dict[str, dict[str, int]] = {}
        """By tenant and name: until when it is drained."""
        self._changing = asyncio.Lock()

    def holds(self, tenant: str, name: str) -> bool:
        return self._until_ms.get(tenant, {}).get(name, 0) > self._oldest_ms(tenant)

    async def set(self, tenant: str, name: str, *, drained: bool) -> None:
        """Raises QuotaExceeded, StoreUnavailable."""
        async with self._changing:
            known = await self._read(tenant)
            known.pop(name, None)
            now_ms = self._clock.now_ms()
            if drained:
                known[name] = now_ms + DRAINED_MS
            if len(known) > _MOST:
                raise QuotaExceeded(f"{_MOST} workers of this tenant are drained already", detail={"quota": "drains"})
            await self._store.put_note(
                _key(tenant), msgspec.json.encode(known), expires_ms=max(known.values(), default=now_ms + 1)
            )
            self._keep(tenant, known)

    async def refresh(self, tenant: str) -> None:
        """See what other daemons have written down. Raises StoreUnavailable."""
        self._keep(tenant, await self._read(tenant))

    async def _read(self, tenant: str) -> dict[str, int]:
        now_ms, oldest_ms = self._clock.now_ms(), self._oldest_ms(tenant)
        note = await self._store.get_note(_key(tenant), now_ms=now_ms)
        try:
            known = _NOTE.decode(note) if note else {}
        except (msgspec.MsgspecError, UnicodeDecodeError):  # of another version
            known = {}
        return {name: until_ms for name, until_ms in known.items() if until_ms > oldest_ms}

    def _oldest_ms(self, tenant: str) -> int:
        """What ends before is over, or was said of a worker of another one with the tenant's name."""
        return max(self._clock.now_ms(), self._since_ms(tenant) + DRAINED_MS)

    def _keep(self, tenant: str, known: dict[str, int]) -> None:
        if known:
            self._until_ms[tenant] = known
        else:
            self._until_ms.pop(tenant, None)


def _key(tenant: str) -> str:
    return f"drains.{tenant}"

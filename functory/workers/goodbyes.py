"""Goodbyes of workers, for the daemons that did not hear them: a note in the store, and a word to look at it.

Each daemon gives back what the worker took from it before it said goodbye. So a word that is late, repeated or forged
gives back nothing that a worker of that name has taken since.
"""

from typing import Final

import msgspec

from functory.loops.shared import Shared

_KEPT_MS: Final = 60_000
"""Words come within a moment, or never: then the leases lapse."""


class Goodbye(msgspec.Struct, frozen=True):
    name: str
    at_ms: int


_NOTE: Final = msgspec.json.Decoder(Goodbye)


class Goodbyes:
    def __init__(self, shared: Shared) -> None:
        self._store = shared.store
        self._clock = shared.clock

    async def keep(self, tenant: str, mark: int, name: str) -> None:
        """Raises StoreUnavailable."""
        now_ms = self._clock.now_ms()
        note = msgspec.json.encode(Goodbye(name, now_ms))
        await self._store.put_note(_key(tenant, mark), note, expires_ms=now_ms + _KEPT_MS)

    async def find(self, tenant: str, mark: int) -> Goodbye | None:
        """The last one. Raises StoreUnavailable."""
        note = await self._store.get_note(_key(tenant, mark), now_ms=self._clock.now_ms())
        try:
            return _NOTE.decode(note) if note else None
        except (msgspec.MsgspecError, UnicodeDecodeError):  # of another version
            return None


def _key(tenant: str, mark: int) -> str:
    return f"goodbye.{tenant}.{mark}"

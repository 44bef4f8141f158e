"""Goodbyes of workers, for the daemons that did not hear them: a note in the store, and a word to look at it.

Each daemon gives back what the worker took from it before it said goodbye, once for each goodbye. So a word that is
late, repeated or forged gives back nothing that a worker of that name has taken since. One limit: the time of the
goodbye is by the clock of the daemon that heard it. If that is ahead, the first word that finds the worker here may
also give back what it took within the difference after coming again; those jobs wait again, and no attempt is counted.
"""

from typing import Final

import msgspec

from functory.loops.shared import Shared

_KEPT_MS: Final = 60_000
"""Words come within a moment, or never: then the leases lapse."""
_MOST_FOUND: Final = 10_000


class Goodbye(msgspec.Struct, frozen=True):
    name: str
    at_ms: int


_NOTE: Final = msgspec.json.Decoder(Goodbye)


class Goodbyes:
    def __init__(self, shared: Shared) -> None:
        self._store = shared.store
        self._clock = shared.clock
        self._found: dict[str, int] = {}
        """Times of the goodbyes that were found here, by key. The oldest are forgotten, and their notes expire."""

    async def keep(self, tenant: str, mark: int, name: str) -> None:
        """Raises StoreUnavailable."""
        now_ms = self._clock.now_ms()
        note = msgspec.json.encode(Goodbye(name, now_ms))
        await self._store.put_note(_key(tenant, mark), note, expires_ms=now_ms + _KEPT_MS)

    async def find(self, tenant: str, mark: int) -> Goodbye | None:
        """The last one, if it was not found here before. Raises StoreUnavailable."""
        key = _key(tenant, mark)
        note = await self._store.get_note(key, now_ms=self._clock.now_ms())
        try:
            goodbye = _NOTE.decode(note) if note else None
        except (msgspec.MsgspecError, UnicodeDecodeError):  # of another version
            return None
        if goodbye is None or self._found.get(key) == goodbye.at_ms:
            return None
        self._found.pop(key, None)  # so that it is the newest
        self._found[key] = goodbye.at_ms
        if len(self._found) > _MOST_FOUND:
            del self._found[next(iter(self._found))]
        return goodbye


def _key(tenant: str, mark: int) -> str:
    return f"goodbye.{tenant}.{mark}"

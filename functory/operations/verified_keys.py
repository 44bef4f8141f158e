"""The keys that this daemon verified a moment ago. Operations that change keys or tenants clear the cache."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from functory.operations.principal import Principal

LIFE_S: Final = 5.0
"""So long a verified key is trusted."""
GRACE_S: Final = 3600.0
"""So long while the store cannot be reached."""
_MAX_KEYS: Final = 10_000
_K = TypeVar("_K")


class VerifiedKey(NamedTuple):
    principal: Principal
    checked_ms: int


class VerifiedKeys:
    def __init__(self) -> None:
        self.by_digest: dict[bytes, VerifiedKey] = {}
        """By a hash of the whole key: neither the memory nor the time of a look-up gives a secret away."""
        self.by_id: dict[str, VerifiedKey] = {}
        """By public id: for sessions, and for whoever has waited."""
        self.changes = 0
        """How often they were forgotten, because keys or tenants had changed."""
        self._listener: Callable[[], None] = lambda: None

    def keep(self, where: dict[_K, VerifiedKey], name: _K, key: VerifiedKey, changes: int | None = None) -> None:
        """Keep a key in one of the two. The oldest is dropped when there are too many.

        changes: as they were before the store was asked. If they have changed since, the answer may be of before.
        """
        if changes not in {None, self.changes}:
            return
        where.pop(name, None)
        if len(where) >= _MAX_KEYS:
            del where[next(iter(where))]
        where[name] = key

    def forget(self) -> None:
        """Ask the store again, for every key."""
        self.changes += 1
        self.by_digest.clear()
        self.by_id.clear()
        self._listener()

    def when_forgotten(self, listener: Callable[[], None]) -> None:
        self._listener = listener

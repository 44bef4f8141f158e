"""Jobtypes that an idle context is ready for: a live view. Who chooses what to run next asks for one type, or looks at
all of them, which are as many as idle contexts have handlers, however many types have run."""

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet

from runner.pool import ContextKey


class WarmTypes(AbstractSet[str]):
    def __init__(self, idle: Collection[ContextKey]) -> None:
        """idle: a view of the keys of which the pool has an idle context."""
        self._idle = idle
        self._keys: dict[str, ContextKey] = {}
        """By type: the context that had its handler last."""
        self._types: dict[ContextKey, dict[str, None]] = {}
        """The other way round."""

    def __contains__(self, jobtype: object) -> bool:
        key = self._keys.get(jobtype)  # type: ignore[call-overload]  # what is no name of a type is not among them
        return key is not None and key in self._idle

    def __iter__(self) -> Iterator[str]:
        return (jobtype for key in self._idle for jobtype in self._types.get(key, ()))

    def __len__(self) -> int:
        return sum(len(self._types.get(key, ())) for key in self._idle)

    def loaded(self, jobtype: str, key: ContextKey) -> None:
        """A context of that key has the handler of the type."""
        before = self._keys.get(jobtype)
        if before == key:
            return
        if before is not None:
            self._leave(jobtype, before)
        self._keys[jobtype] = key
        self._types.setdefault(key, {})[jobtype] = None

    def forget(self, matches: Callable[[ContextKey], bool]) -> None:
        for key in [key for key in self._types if matches(key)]:
            for jobtype in self._types.pop(key):
                del self._keys[jobtype]

    def _leave(self, jobtype: str, key: ContextKey) -> None:
        del self._types[key][jobtype]
        if not self._types[key]:
            del self._types[key]

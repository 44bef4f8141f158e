"""Jobtypes that an idle context is ready for: a live view. Who chooses what to run next asks for one type, and it costs
the same beside one context and a thousand."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from runner.pool import ContextKey


class WarmTypes(AbstractSet[str]):
    def __init__(self, is_idle: Callable[[ContextKey], bool]) -> None:
        """is_idle: whether the pool has an idle context of that key."""
        self._is_idle = is_idle
        self._keys: dict[str, ContextKey] = {}
        """By type: the context that had its handler last."""

    def __contains__(self, jobtype: object) -> bool:
        key = self._keys.get(jobtype)  # type: ignore[call-overload]  # what is no name of a type is not among them
        return key is not None and self._is_idle(key)

    def __iter__(self) -> Iterator[str]:
        return (jobtype for jobtype, key in self._keys.items() if self._is_idle(key))

    def __len__(self) -> int:
        return sum(map(self._is_idle, self._keys.values()))

    def loaded(self, jobtype: str, key: ContextKey) -> None:
        """A context of that key has the handler of the type."""
        self._keys[jobtype] = key

    def forget(self, matches: Callable[[ContextKey], bool]) -> None:
        self._keys = {jobtype: key for jobtype, key in self._keys.items() if not matches(key)}

"""The lines that wait for the journal's reader, counted by tenant.

Ensures: whether all of them are of one type is answered with yes only if it is so.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

_MANY: Final = 500
"""Lines that are worth a step of the reader even if none of their jobs can run."""
SEVERAL: Final = ""
"""In place of a type."""


class Line:
    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        """By tenant. Below 0 while the reader was faster than the acknowledgement."""
        self._type_of: dict[str, str] = {}
        """By tenant, the type of its lines; SEVERAL if they are of several, or if nobody knows."""
        self.lines = 0
        """Of all tenants."""
        self.is_urgent = False
        """Whether some of them may be able to run, or they are many. Otherwise there is time to wait for more: many
        cost the store little more than one."""
        self._call_reader: Callable[[], None] = _nobody
        self._call_entered: Callable[[], None] = _nobody

    def when_urgent(self, call_reader: Callable[[], None]) -> None:
        """Lines wait for the reader from now on."""
        self._call_reader = call_reader

    def when_entered(self, listener: Callable[[], None]) -> None:
        self._call_entered = listener

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def of(self, tenant: str) -> int:
        """Below 0 if lines of the tenant were read and are not acknowledged."""
        return self._waiting.get(tenant, 0)

    def enter(self, tenant: str, count: int, jobtype: str = SEVERAL, *, is_urgent: bool = True) -> None:
        """jobtype: of all of them, if it is known."""
        if self._type_of.setdefault(tenant, jobtype) != jobtype:
            self._type_of[tenant] = SEVERAL
        self._change(tenant, count)
        if is_urgent or self.lines >= _MANY:
            self.hurry()
        self._call_entered()

    def leave(self, tenant: str, count: int) -> None:
        """The reader has them in hand."""
        self._change(tenant, -count)

    def hurry(self) -> None:
        self.is_urgent = bool(self._waiting)
        self._call_reader()

    @property
    def is_mixed(self) -> bool:
        """Whether lines of several types wait."""
        return len(self._waiting) > 1 or SEVERAL in self._type_of.values()

    def has_only(self, tenant: str, jobtype: str) -> bool:
        """Whether lines of this type of the tenant wait, or none at all."""
        return self._waiting.keys() <= {tenant} and self._type_of.get(tenant, jobtype) == jobtype

    def of_one_type(self) -> dict[str, int]:
        """How many wait, by type, if they are all of one."""
        types = set(self._type_of.values())
        return {types.pop(): self.lines} if len(types) == 1 and not self.is_mixed and self.lines > 0 else {}

    def _change(self, tenant: str, count: int) -> None:
        self._waiting[tenant] += count
        self.lines += count
        if not self._waiting[tenant]:
            del self._waiting[tenant]
            self._type_of.pop(tenant, None)
        if not self._waiting:
            self.is_urgent = False


def _nobody() -> None:
    """Nobody listens yet."""

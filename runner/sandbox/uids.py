"""Uids for contexts: one each while it lives, so that no two contexts, and so no two tenants, share one.

The range is far above what systems, containers and directories hand out. Uids are given round robin: one that
was just released is the last to come again. Two daemons as root on one machine need different ranges.
"""

from typing import Final

from runner.errors import LaunchError

DEFAULT_BASE: Final = 0x7000_0000
_COUNT: Final = 1 << 16


class Uids:
    """A range of uids and which of them are taken."""

    def __init__(self, base: int = DEFAULT_BASE, count: int = _COUNT) -> None:
        self._base = base
        self._count = count
        self._next = 0
        self._taken: set[int] = set()

    def take(self) -> int:
        if len(self._taken) == self._count:
            raise LaunchError(f"all {self._count} uids for contexts are taken")
        while self._base + self._next in self._taken:
            self._next = (self._next + 1) % self._count
        uid = self._base + self._next
        self._next = (self._next + 1) % self._count
        self._taken.add(uid)
        return uid

    def release(self, uid: int) -> None:
        self._taken.discard(uid)

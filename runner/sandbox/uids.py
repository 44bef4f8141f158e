"""Uids for contexts: one each while it lives, so that no two contexts, and so no two tenants, share one.

The range is far above what systems, containers and directories hand out. Uids are given round robin: one that
was just released is the last to come again. Every daemon on a machine has a range of its own: the end of a context
without namespaces is the end of all processes of its uid.
"""

import socket
from typing import Final

from runner.errors import LaunchError

DEFAULT_BASE: Final = 0x7000_0000
_COUNT: Final = 1 << 16
_RANGES: Final = 256


class Uids:
    """A range of uids and which of them are taken."""

    def __init__(self, base: int = DEFAULT_BASE, count: int = _COUNT) -> None:
        self._base = self._first = base
        self._count = count
        self._next = 0
        self._taken: set[int] = set()
        self._claim: socket.socket | None = None

    def claim(self) -> None:
        """Move to a range that nobody else on this machine has; it is ours until `free`, or until this process ends.

        The name of an abstract socket is the claim: it leaves nothing behind, and contexts cannot bind one.
        """
        for number in range(_RANGES if self._claim is None else 0):
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0functory-uids-{number}")
            except OSError:
                claim.close()
                continue
            self._claim = claim
            self._base = self._first + number * self._count
            return
        if self._claim is None:
            raise LaunchError(f"all {_RANGES} ranges of uids are taken by other daemons on this machine")

    def free(self) -> None:
        """Give the range up, when nothing of it runs any more. Idempotent."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None
            self._base = self._first

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

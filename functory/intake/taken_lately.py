"""What was taken of a tenant, in order: the bytes of the last jobs are those that the store does not have yet.

Bounded: of very many requests neighbours are put together, and then a part of them counts by its share.
"""

from collections import deque
from typing import Final

_MOST_PARTS: Final = 1000


class TakenLately:
    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: deque[tuple[int, int]] = deque()
        """Jobs, and their bytes."""

    def add(self, jobs: int, size_bytes: int) -> None:
        if jobs <= 0:
            return
        self._parts.append((jobs, size_bytes))
        if len(self._parts) > _MOST_PARTS:
            parts = list(self._parts)
            pairs = zip(parts[::2], [*parts[1::2], (0, 0)], strict=False)
            self._parts = deque((one[0] + other[0], one[1] + other[1]) for one, other in pairs)

    def keep_last(self, jobs: int) -> int:
        """Forget all but the last jobs. Returns the bytes of those."""
        left, size_bytes = jobs, 0
        kept: deque[tuple[int, int]] = deque()
        while left > 0 and self._parts:
            count, its_bytes = self._parts.pop()
            if count > left:
                its_bytes, count = its_bytes * left // count, left
            kept.appendleft((count, its_bytes))
            left -= count
            size_bytes += its_bytes
        self._parts = kept
        return size_bytes

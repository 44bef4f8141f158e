"""How many bytes of requests that are not whole yet the connections hold: those of one owner, and all together.

An owner is a tenant, or an address while no key is known. Ensures: one owner leaves room for others.
"""

from collections import Counter
from typing import Final

FREE_BYTES: Final = 32 * 1024
"""That each connection may hold without asking."""


class InputRoom:
    def __init__(self, in_all_bytes: int, of_one_bytes: int) -> None:
        self._in_all_bytes = in_all_bytes
        self._of_one_bytes = of_one_bytes
        self._taken: Counter[str] = Counter()

    def change(self, owner: str, before_bytes: int, after_bytes: int) -> bool:
        """A connection holds more, or less. False, and nothing is changed, if that is too much.

        A request that is larger than the room of its owner fits if the owner has no other.
        """
        before, after = max(before_bytes - FREE_BYTES, 0), max(after_bytes - FREE_BYTES, 0)
        if after > before:
            beside = self._taken[owner] - before
            if beside and beside + after > self._of_one_bytes:
                return False
            if self._taken.total() + after - before > self._in_all_bytes:
                return False
        self._taken[owner] += after - before
        if not self._taken[owner]:
            del self._taken[owner]
        return True

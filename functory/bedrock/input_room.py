"""How many bytes of requests that are not whole yet all connections together hold."""

from typing import Final

FREE_BYTES: Final = 32 * 1024
"""That each connection may hold without asking."""


class InputRoom:
    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._taken_bytes = 0

    def change(self, before_bytes: int, after_bytes: int) -> bool:
        """A connection holds more, or less. False, and nothing is changed, if that is too much in all."""
        more_bytes = max(after_bytes - FREE_BYTES, 0) - max(before_bytes - FREE_BYTES, 0)
        if more_bytes > 0 and self._taken_bytes + more_bytes > self._most_bytes:
            return False
        self._taken_bytes += more_bytes
        return True

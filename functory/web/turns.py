"""Large bodies take turns: one in each round of the event loop, so that small requests are served in between."""

import asyncio
from typing import Final

LARGE_BYTES: Final = 16 * 1024


class Turns:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def take(self, size_bytes: int) -> None:
        """Wait for a round of one's own, if the body is large. What follows, up to the next await, has that round."""
        if size_bytes > LARGE_BYTES:
            async with self._turn:  # it goes to the next one in the round after this
                await asyncio.sleep(0)

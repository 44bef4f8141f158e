"""Something that happens again and again, and those who wait for it to happen once more."""

import asyncio


class NextTime:
    """Costs nothing while nobody waits."""

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None
        """Of those who wait now."""

    async def wait(self) -> None:
        """Until it happens the next time."""
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()

    def tell(self) -> None:
        """It has happened."""
        if self._event is not None:
            self._event.set()
            self._event = None

"""Who may use how much of the memory for contexts. A context that is in use counts with the limit that it has.

Ensures: contexts in use together never have limits beyond the whole, so that none is killed for what a neighbour takes;
one tenant has at most half of it, unless it is one context; a quarter is kept for tenants that have none in use and ask
for no more than that. Whoever waits gets its turn in order, but is passed by those who wait for nothing but a part that
was kept for them, and does not hold up anybody while it waits for its own tenant.
"""

import asyncio


class _Waiter:
    __slots__ = ("granted", "size_bytes", "tenant")

    def __init__(self, tenant: str, size_bytes: int) -> None:
        self.tenant = tenant
        self.size_bytes = size_bytes
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class MemoryShares:
    def __init__(self, whole_bytes: int) -> None:
        self._whole_bytes = whole_bytes
        self._kept_bytes = whole_bytes // 4
        self._held: dict[str, int] = {}
        self._waiting: list[_Waiter] = []
        self.taken_bytes = 0

    @property
    def most_of_one_bytes(self) -> int:
        """The most that one tenant may have; no context gets more either."""
        return self._whole_bytes // 2

    async def take(self, tenant: str, size_bytes: int) -> None:
        """Wait for so much. Whoever got it calls `give_back`."""
        if self._waiting or not self._fits(tenant, size_bytes):
            await self._wait(_Waiter(tenant, size_bytes))
        else:
            self._hold(tenant, size_bytes)

    def give_back(self, tenant: str, size_bytes: int) -> None:
        self._hold(tenant, -size_bytes)
        if self._waiting:
            self._grant()

    async def _wait(self, waiter: _Waiter) -> None:
        self._waiting.append(waiter)
        self._grant()
        try:
            await waiter.granted
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.granted.cancelled():
                self._hold(waiter.tenant, -waiter.size_bytes)
            self._grant()
            raise

    def _grant(self) -> None:
        is_short = False  # somebody before was not let in although its tenant's share allows it
        for waiter in list(self._waiting):
            tenant, size_bytes = waiter.tenant, waiter.size_bytes
            if waiter.granted.cancelled() or not self._within_share(tenant, size_bytes):
                continue
            if self._fits(tenant, size_bytes) and (not is_short or self._is_kept_for(tenant, size_bytes)):
                self._waiting.remove(waiter)
                self._hold(tenant, size_bytes)
                waiter.granted.set_result(None)
            else:
                is_short = True

    def _fits(self, tenant: str, size_bytes: int) -> bool:
        if not self.taken_bytes:
            return True
        if not self._within_share(tenant, size_bytes):
            return False
        free_bytes = self._whole_bytes - self.taken_bytes - size_bytes
        return free_bytes >= self._kept_bytes or (free_bytes >= 0 and self._is_kept_for(tenant, size_bytes))

    def _within_share(self, tenant: str, size_bytes: int) -> bool:
        held_bytes = self._held.get(tenant, 0)
        return not held_bytes or held_bytes + size_bytes <= self.most_of_one_bytes

    def _is_kept_for(self, tenant: str, size_bytes: int) -> bool:
        return tenant not in self._held and size_bytes <= self._kept_bytes

    def _hold(self, tenant: str, size_bytes: int) -> None:
        self.taken_bytes += size_bytes
        held_bytes = self._held.get(tenant, 0) + size_bytes
        if held_bytes:
            self._held[tenant] = held_bytes
        else:
            self._held.pop(tenant, None)

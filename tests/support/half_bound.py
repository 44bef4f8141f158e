"""A request that ends between its idempotency key and its jobs, as it may on a store without transactions."""

from collections.abc import Awaitable, Callable

from store.base import Binding, Store


def crash_after_the_key(store: Store) -> Callable[..., Awaitable[bytes]]:
    """To be put in place of `add_jobs_once`."""

    async def bind_and_crash(binding: Binding, _: object, *, now_ms: int) -> bytes:
        tenant, end_ms = binding.tenant, binding.expires_ms
        await store.put_once(tenant, binding.key, binding.value, expires_ms=end_ms, now_ms=now_ms)
        raise RuntimeError("the daemon ends here")

    return bind_and_crash

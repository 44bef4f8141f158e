"""Token buckets by key: how many requests a key may make. In memory, and for this daemon only."""

from functory.errors import RateLimited
from vocabulary.token_bucket import refill


class _Bucket:
    __slots__ = ("tokens", "updated_ms")

    def __init__(self, tokens: float, updated_ms: float) -> None:
        self.tokens = tokens
        self.updated_ms = updated_ms


class RequestRates:
    """Bounded: the key that was seen first is forgotten first, which only fills its bucket."""

    def __init__(self, max_keys: int = 10_000) -> None:
        self._max_keys = max_keys
        self._buckets: dict[str, _Bucket] = {}

    def take(self, key_id: str, now_s: float, *, rate_per_s: float, burst: int) -> None:
        """Take a token for one request. Raises RateLimited, with the time until the next token."""
        now_ms = now_s * 1000
        bucket = self._buckets.get(key_id)
        if bucket is None:
            if len(self._buckets) >= self._max_keys:
                del self._buckets[next(iter(self._buckets))]
            self._buckets[key_id] = bucket = _Bucket(float(burst), now_ms)
        tokens = refill(bucket.tokens, bucket.updated_ms, rate_per_s=rate_per_s, most=burst, now_ms=now_ms)
        bucket.updated_ms = now_ms
        if tokens < 1.0:
            bucket.tokens = tokens
            raise RateLimited(
                f"the key makes more than {rate_per_s:g} requests a second: slow down, or send more jobs in each",
                retry_after_s=(1.0 - tokens) / rate_per_s,
            )
        bucket.tokens = tokens - 1.0

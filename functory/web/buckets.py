"""Token buckets by key: how many requests a key may make. In memory and of this daemon only."""

from functory.errors import RateLimited


class _Bucket:
    __slots__ = ("tokens", "updated_s")

    def __init__(self, tokens: float, updated_s: float) -> None:
        self.tokens = tokens
        self.updated_s = updated_s


class RequestBuckets:
    """Bounded: the key that was first seen longest ago is forgotten first, which only fills its bucket."""

    def __init__(self, max_keys: int = 10_000) -> None:
        self._max_keys = max_keys
        self._buckets: dict[str, _Bucket] = {}

    def take(self, key_id: str, now_s: float, *, rate_per_s: float, burst: int) -> None:
        """One request. Raises RateLimited with the time until there is a token again."""
        bucket = self._buckets.get(key_id)
        if bucket is None:
            if len(self._buckets) >= self._max_keys:
                del self._buckets[next(iter(self._buckets))]
            self._buckets[key_id] = bucket = _Bucket(float(burst), now_s)
        tokens = min(bucket.tokens + (now_s - bucket.updated_s) * rate_per_s, float(burst))
        bucket.updated_s = now_s
        if tokens < 1.0:
            bucket.tokens = tokens
            raise RateLimited(
                f"the key makes more than {rate_per_s:g} requests a second: slow down, or send more jobs in each",
                retry_after_s=(1.0 - tokens) / rate_per_s,
            )
        bucket.tokens = tokens - 1.0

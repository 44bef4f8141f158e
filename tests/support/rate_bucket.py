"""The bucket of a rate domain, changed as both stores change it."""

from store.rate_rules import grown
from vocabulary.token_bucket import next_token_ms


class RateBucket:
    """What is taken is whole, and a clock that is behind adds nothing."""

    def __init__(self, rate_per_s: float, burst: int, now_ms: int = 0) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = float(burst)
        self._updated_ms = now_ms

    def take(self, now_ms: int, most: int) -> int:
        held = self._held(now_ms)
        count = min(int(held), most)
        if count:
            self._tokens, self._updated_ms = held - count, max(now_ms, self._updated_ms)
        return count

    def next_ms(self, now_ms: int) -> int:
        return next_token_ms(self._held(now_ms), rate_per_s=self._rate_per_s, now_ms=now_ms)

    def _held(self, now_ms: int) -> float:
        return grown(self._tokens, self._updated_ms, rate_per_s=self._rate_per_s, burst=self._burst, now_ms=now_ms)

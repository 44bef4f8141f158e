"""How often somebody may try a key at the sign-in form: a few times at once from one address, and not often in total.

A key has 192 random bits, so guessing is hopeless anyway. This keeps strangers from burning our processor
and filling the log.
"""

from functory.errors import RateLimited
from functory.web.http.request_rates import RequestRates


class SignInThrottle:
    def __init__(self, *, per_s: float = 0.2, burst: int = 10, all_per_s: float = 5.0, all_burst: int = 50) -> None:
        self._by_address = RequestRates()
        self._all = RequestRates(max_keys=1)
        self._per_s, self._burst = per_s, burst
        self._all_per_s, self._all_burst = all_per_s, all_burst

    def take(self, address: str, now_s: float) -> None:
        """One attempt. Raises RateLimited."""
        try:
            self._by_address.take(address, now_s, rate_per_s=self._per_s, burst=self._burst)
            self._all.take("all", now_s, rate_per_s=self._all_per_s, burst=self._all_burst)
        except RateLimited as error:
            raise RateLimited(
                "too many attempts to sign in: wait a little, then try again", retry_after_s=error.retry_after_s
            ) from None

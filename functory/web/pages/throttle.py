"""How often somebody may try a key at the sign-in form: a few times at once from one address, and not often with keys
that are not good, from all addresses together.

A key has 192 random bits, so guessing is hopeless anyway. This keeps strangers from burning our processor
and filling the log. Ensures: however many strangers try, whoever has a good key can sign in.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from functory.errors import RateLimited
from functory.web.http.client_networks import counted_as
from functory.web.http.request_rates import RequestRates


class SignInThrottle:
    def __init__(self, *, per_s: float = 0.2, burst: int = 10, all_per_s: float = 5.0, all_burst: int = 50) -> None:
        self._by_address = RequestRates()
        self._all = RequestRates(max_keys=1)
        self._per_s, self._burst = per_s, burst
        self._all_per_s, self._all_burst = all_per_s, all_burst

    def take(self, address: str, now_s: float) -> None:
        """One attempt. Raises RateLimited."""
        with _in_words():
            self._by_address.take(counted_as(address), now_s, rate_per_s=self._per_s, burst=self._burst)

    def failed(self, now_s: float) -> None:
        """One with a key that is not good, from anywhere. Raises RateLimited."""
        with _in_words():
            self._all.take("all", now_s, rate_per_s=self._all_per_s, burst=self._all_burst)


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except RateLimited as error:
        raise RateLimited(
            "too many attempts to sign in: wait a little, then try again", retry_after_s=error.retry_after_s
        ) from None

"""How much of the event loop's time the searches for secrets take, by tenant.

What a search costs is up to the tenant, who makes both the secrets and the text: nearly nothing as a rule, a third of
a microsecond a byte if the text is full of what looks like secrets. So it is counted in steps (form_tree.py). Plain
texts take none, and no clock is read for them.

Ensures: who takes more than a share has to wait. Who does not take steps is never made to.
"""

import time
from collections.abc import Callable
from typing import Final

_STEPS_PER_S: Final = 100_000.0
"""A tenant's share: some 3 % of the loop."""
_SAVED_S: Final = 0.2
"""What was not used may be used at once, up to this."""
_LONGEST_WAIT_S: Final = 10.0
_MANY: Final = 100


class SearchAccounts:
    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._paid_s: dict[str, float] = {}
        """When what a tenant has taken will be paid off. Tenants that owe nothing need not be here."""

    def wait_s(self, tenant: str) -> float:
        """How long the tenant has to wait until more of its texts may be searched on the loop; mostly 0."""
        paid_s = self._paid_s.get(tenant)
        return 0.0 if paid_s is None else max(0.0, paid_s - _SAVED_S - self._monotonic_s())

    def take(self, tenant: str, steps: int) -> None:
        """So many were taken, on the loop or beside it: as long as it needs many, it is searched there."""
        if not steps:
            return
        now_s = self._monotonic_s()
        if len(self._paid_s) >= _MANY:
            self._paid_s = {other: paid_s for other, paid_s in self._paid_s.items() if paid_s > now_s}
        paid_s = max(now_s, self._paid_s.get(tenant, now_s)) + steps / _STEPS_PER_S
        self._paid_s[tenant] = min(paid_s, now_s + _SAVED_S + _LONGEST_WAIT_S)

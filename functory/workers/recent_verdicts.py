"""What was recorded of the deliveries that ended last, for a worker that did not hear it and reports again.

Bounded in number. What it has forgotten, or another daemon recorded, the store tells: of each job the last outcome.
"""

from typing import Final

from functory.workers.values import Delivery, Verdict

_MOST: Final = 10_000


class RecentVerdicts:
    def __init__(self) -> None:
        self._verdicts: dict[Delivery, tuple[str, Verdict]] = {}
        """With the tenant, the oldest first."""

    def add(self, tenant: str, delivery: Delivery, verdict: Verdict) -> None:
        self._verdicts[delivery] = tenant, verdict
        if len(self._verdicts) > _MOST:
            del self._verdicts[next(iter(self._verdicts))]

    def find(self, tenant: str, delivery: Delivery) -> Verdict | None:
        owner, verdict = self._verdicts.get(delivery, ("", None))
        return verdict if owner == tenant else None

    def drop_tenant(self, tenant: str) -> None:
        self._verdicts = {delivery: kept for delivery, kept in self._verdicts.items() if kept[0] != tenant}

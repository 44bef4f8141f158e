"""What was recorded of the deliveries that ended last, for a worker that did not hear it and reports again.

Bounded in number. What it has forgotten, or another daemon recorded, the store tells: of each job the last outcome.
"""

from typing import Final

from functory.workers.values import Delivery, Verdict

_MOST: Final = 10_000


class RecentVerdicts:
    def __init__(self) -> None:
        self._verdicts: dict[Delivery, tuple[str, int | None, Verdict]] = {}
        """With the tenant and the exit code that was reported, the oldest first."""

    def add(self, tenant: str, delivery: Delivery, exitcode: int | None, verdict: Verdict) -> None:
        self._verdicts[delivery] = tenant, exitcode, verdict
        if len(self._verdicts) > _MOST:
            del self._verdicts[next(iter(self._verdicts))]

    def find(self, tenant: str, delivery: Delivery, exitcode: int | None) -> Verdict | None:
        """None also for another end than the one that was recorded."""
        owner, reported, verdict = self._verdicts.get(delivery, ("", None, None))
        return verdict if (owner, reported) == (tenant, exitcode) else None

    def drop_tenant(self, tenant: str) -> None:
        self._verdicts = {delivery: kept for delivery, kept in self._verdicts.items() if kept[0] != tenant}

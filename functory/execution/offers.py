"""What the scheduler is told: how many jobs of each type could start now, of those in the store and of those on the
straight way."""

from collections.abc import Mapping

from functory.execution.outlook import Outlook
from functory.execution.straight.way import StraightWay
from functory.execution.tenant_book import TenantBook
from scheduler import Candidate, Policy
from vocabulary.clock import Clock


class Offers:
    def __init__(self, outlook: Outlook, policy: Policy, tenants: TenantBook, clock: Clock) -> None:
        self._outlook = outlook
        self._policy = policy
        self._tenants = tenants
        self._clock = clock
        self._straight: StraightWay
        """By `use`, before anything runs."""

    def use(self, straight: StraightWay) -> None:
        self._straight = straight

    async def look(self, claiming: Mapping[str, int]) -> None:
        """Ask the store which types have jobs that could run here. `claiming`: what claims under way are taking."""
        oldest_ms = {each.jobtype: each.oldest_due_ms for each in await self._outlook.look(claiming)}
        for jobtype in filter(self._outlook.has_urgent, dict(self._straight.waiting())):
            self._straight.give_way(jobtype, is_urgent=True)
        straight = dict(self._straight.waiting())
        self._policy.set_waiting(
            [
                self._candidate(
                    jobtype,
                    (self._outlook.waiting[jobtype] if jobtype in oldest_ms else 0) + straight.get(jobtype, 0),
                    oldest_ms.get(jobtype, self._clock.now_ms()),
                )
                for jobtype in {**oldest_ms, **straight}
            ]
        )

    def tell(self, jobtype: str, here: int) -> None:
        """What is known of one type has changed. here: how many can start that wait on the straight way."""
        waiting = self._outlook.claimable(jobtype)
        oldest_ms = self._outlook.oldest_due_ms(jobtype) if waiting else self._clock.now_ms()
        self._policy.update_waiting(self._candidate(jobtype, waiting + here, oldest_ms))

    def _candidate(self, jobtype: str, waiting: int, oldest_due_ms: int) -> Candidate:
        cap, priority = self._tenants.of(jobtype).max_per_type, self._outlook.priority(jobtype)
        return Candidate(jobtype, waiting, oldest_due_ms, cap, priority)

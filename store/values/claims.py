"""Claims as values: what is asked for, and what was taken."""

from collections.abc import Iterable
from typing import NamedTuple

from store.values.jobs import Job


class Claim(NamedTuple):
    """The arguments of `claim_jobs`."""

    jobtype: str
    limit: int
    owner: str
    lease_ms: int
    now_ms: int
    max_bytes: int
    max_per_key: int | None = None
    tenant_created_ms: int | None = None
    domain: str = ""

    @property
    def for_keys(self) -> int:
        """How many of the jobs are to have a key, where enough jobs wait with and without one: half. The odd one goes
        by the clock, so that claims of one job are fair, too."""
        return (self.limit + self.now_ms % 2) // 2


class ClaimedJobs(list[Job]):
    """The jobs that a claim took. next_ms: if it took all that may run now, and others may wait for a token of their
    rate domain: when the first of them has one. None: there are none, or the claim took as much as it was to take, or
    it does not know."""

    __slots__ = ("next_ms",)

    def __init__(self, jobs: Iterable[Job] = (), next_ms: int | None = None) -> None:
        super().__init__(jobs)
        self.next_ms = next_ms

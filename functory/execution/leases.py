"""The leases that this daemon holds, from claim to release, and whether a batch may still be started under them.

A daemon that stood still (a stopped process, a suspended machine) may wake up with jobs in hand that others have taken
over meanwhile. Ensures: by its own clock, no job is started after its lease has lapsed. That would be a second run that
can be avoided.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from store.base import Job, Lease
from vocabulary.clock import Clock
from vocabulary.columns import fields

MayStart = Callable[[Iterable[Job]], bool]

_LEASE: Final = fields(Job, "id", "token")


class HeldLeases:
    def __init__(self, clock: Clock, lease_ms: int) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self._tokens: dict[str, int] = {}
        self._renewed_ms = 0
        """When the last renewal of all leases began that came to its end."""
        self._lost: frozenset[Lease] = frozenset()
        """What that renewal found with somebody else."""

    def __len__(self) -> int:
        return len(self._tokens)

    def all(self) -> list[Lease]:
        """Everything claimed and not yet released."""
        return [Lease(job_id, token) for job_id, token in self._tokens.items()]

    def claimed(self, jobs: Sequence[Job], claimed_ms: int) -> MayStart:
        """Returns the question whether some of these jobs are still ours to start. Ask it before each start."""
        self._tokens.update(map(_LEASE, jobs))
        known_ms = self._clock.now_ms()
        fixed_ms = min([job.dt_ms for job in jobs if job.retry_after_ms is not None], default=None)

        def may_start(some: Iterable[Job]) -> bool:
            # A renewal that began before these were known to it has not renewed them.
            since_ms = self._renewed_ms if self._renewed_ms >= known_ms else claimed_ms
            until_ms = since_ms + self._lease_ms
            if fixed_ms is not None:  # such a lease is not renewed
                until_ms = min(until_ms, fixed_ms)
            return self._clock.now_ms() < until_ms and not (self._lost and self._lost.intersection(map(_LEASE, some)))

        return may_start

    def renewed(self, began_ms: int, lost: Iterable[Lease]) -> None:
        """All leases were renewed but those, by a renewal that began then."""
        self._renewed_ms = began_ms
        self._lost = frozenset(lost)

    def released(self, jobs: Iterable[Job]) -> None:
        tokens = self._tokens
        for job_id, token in map(_LEASE, jobs):
            held = tokens.pop(job_id, token)
            if held != token:  # another delivery of it has begun here
                tokens[job_id] = held

"""A bounded memory of the batches that this daemon's journal took, to answer for jobs that are not in the store yet.

It only adds to what the store says: a job that the store has, or has had and purged, is the store's to answer for.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from functory.intake.job_options import JobOptions
from vocabulary.names import tenant_of

_COUNTER_DIGITS: Final = 7
"""`-00001f` ends an id. The time and sysid before it are the same in all ids of a batch."""


class AcceptedBatch(NamedTuple):
    first: str
    last: str
    jobtype: str
    options: JobOptions


class AcceptedBatches:
    def __init__(self, max_batches: int = 10_000) -> None:
        self._max_batches = max_batches
        self._count = 0
        self._batches: dict[str, list[AcceptedBatch]] = {}
        """By the start of their ids; the oldest come first."""

    def note(self, ids: Sequence[str], jobtype: str, options: JobOptions) -> None:
        """Remember a batch of consecutive ids; the oldest are forgotten."""
        stamp = ids[0][:-_COUNTER_DIGITS]
        batch = AcceptedBatch(ids[0], ids[-1], jobtype, options)
        self._batches.setdefault(stamp, []).append(batch)
        self._count += 1
        while self._count > self._max_batches:
            oldest = next(iter(self._batches))
            self._count -= len(self._batches.pop(oldest))

    def find(self, tenant: str, job_id: str) -> AcceptedBatch | None:
        """The batch of a job, if it is one of that tenant's."""
        for batch in self._batches.get(job_id[:-_COUNTER_DIGITS], ()):
            if batch.first <= job_id <= batch.last and len(job_id) == len(batch.first):
                return batch if tenant_of(batch.jobtype) == tenant else None
        return None

"""Jobs that ended on this daemon a moment ago, so that whoever waits for one need not read it back from the store.

Ensures: a job that is not kept stays here as long as somebody waits for it, and for a moment after that, if there is
room for it; the others are forgotten after a moment. Both are bounded in bytes, and those that are waited for also by
tenant. What becomes of a job that is kept (a retry, a deletion) is the store's to say: only who has waited for its end
takes it from here.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from store.base import Job, JobRecord
from vocabulary.clock import Clock
from vocabulary.names import tenant_of

_LIFE_S: Final = 2.0
_MOST: Final = 1000
_MOST_BYTES: Final = 4 << 20
_MOST_AWAITED_BYTES: Final = 32 << 20
"""Of jobs that are not kept and that somebody waits for. Two of the largest results fit."""
_QUARTERS: Final = 4
"""A tenant that has one of them gets no more. With its last job, which may be large, it has at most three."""


class _End(NamedTuple):
    record: JobRecord
    is_kept: bool
    ended_s: float


class RecentEnds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: OrderedDict[str, _End] = OrderedDict()
        self._size_bytes = 0
        self._waiting: Counter[tuple[str, str]] = Counter()
        """How many wait for a job, by tenant and id."""
        self._awaited: dict[tuple[str, str], JobRecord] = {}
        """Those of them that have ended and are not kept."""
        self._awaited_bytes: Counter[str] = Counter()
        """By tenant."""

    def is_awaited(self, job: Job) -> bool:
        return bool(self._waiting) and (tenant_of(job.jobtype), job.id) in self._waiting

    def add(self, record: JobRecord, *, is_kept: bool) -> None:
        if not is_kept:
            self._keep_for_waiting(record)
        self._remember(record, is_kept=is_kept)

    def _remember(self, record: JobRecord, *, is_kept: bool) -> None:
        size_bytes = _size(record)
        self._drop(record.job.id)
        if size_bytes > _MOST_BYTES // 4:
            return
        self._ends[record.job.id] = _End(record, is_kept, self._clock.monotonic_s())
        self._size_bytes += size_bytes
        while len(self._ends) > _MOST or self._size_bytes > _MOST_BYTES:
            self._drop(next(iter(self._ends)))

    def find(self, tenant: str, job_id: str, *, also_kept: bool) -> JobRecord | None:
        """also_kept: who asks has waited for its end just now."""
        awaited = self._awaited.get((tenant, job_id))
        if awaited is not None:
            return awaited
        end = self._ends.get(job_id)
        if end is None or tenant_of(end.record.job.jobtype) != tenant or (end.is_kept and not also_kept):
            return None
        return end.record if self._clock.monotonic_s() - end.ended_s <= _LIFE_S else None

    @contextmanager
    def awaiting(self, tenant: str, job_ids: Sequence[str]) -> Iterator[None]:
        """While this lasts, those of the jobs that end and are not kept can be found."""
        names = [(tenant, job_id) for job_id in job_ids]
        self._waiting.update(names)
        for _, job_id in names:
            record = self.find(tenant, job_id, also_kept=False)
            if record is not None:
                self._keep_for_waiting(record)
        try:
            yield
        finally:
            self._waiting.subtract(names)
            for name in names:
                if not self._waiting[name]:
                    del self._waiting[name]
                    record = self._let_go(name)
                    if record is not None:  # who did not get it may ask again
                        self._remember(record, is_kept=False)

    def _keep_for_waiting(self, record: JobRecord) -> None:
        name = (tenant_of(record.job.jobtype), record.job.id)
        self._let_go(name)
        if name in self._waiting and self._has_room(name[0], _size(record)):
            self._awaited[name] = record
            self._awaited_bytes[name[0]] += _size(record)

    def _has_room(self, tenant: str, size_bytes: int) -> bool:
        quarter_bytes, mine_bytes = _MOST_AWAITED_BYTES // _QUARTERS, self._awaited_bytes[tenant]
        is_mine = mine_bytes < quarter_bytes and mine_bytes + size_bytes <= _MOST_AWAITED_BYTES - quarter_bytes
        return is_mine and self._awaited_bytes.total() + size_bytes <= _MOST_AWAITED_BYTES

    def _let_go(self, name: tuple[str, str]) -> JobRecord | None:
        record = self._awaited.pop(name, None)
        if record is not None:
            self._awaited_bytes[name[0]] -= _size(record)
            if not self._awaited_bytes[name[0]]:
                del self._awaited_bytes[name[0]]
        return record

    def _drop(self, job_id: str) -> None:
        end = self._ends.pop(job_id, None)
        self._size_bytes -= 0 if end is None else _size(end.record)


def _size(record: JobRecord) -> int:
    log = record.outcome.log if record.outcome else b""
    return record.data_bytes + record.result_bytes + len(log) + 500

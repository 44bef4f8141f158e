"""Jobs that ended on this daemon a moment ago, so that whoever waits for one need not read it back from the store.

Ensures: a job that is not kept stays here as long as somebody waits for it, and for a moment after that, if there is
room for it; the others are forgotten after a moment. Both are bounded in bytes, and those that are waited for also by
tenant. What becomes of a job that is kept (a retry, a deletion) is the store's to say: only who has waited for its end
takes it from here.
"""

from collections import Counter, OrderedDict
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from store.base import JobRecord
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
    size_bytes: int
    is_kept: bool
    ended_s: float


class RecentEnds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: OrderedDict[str, _End] = OrderedDict()
        self._size_bytes = 0
        self._waiting: dict[str, dict[str, int]] = {}
        """How many wait for a job, by tenant and id; nothing of those for which nobody waits."""
        self._awaited: dict[tuple[str, str], JobRecord] = {}
        """Those of them that have ended and are not kept."""
        self._awaited_bytes: Counter[str] = Counter()
        """By tenant."""

    def awaited_of(self, tenant: str) -> Container[str]:
        """The ids of its jobs that somebody waits for."""
        return self._waiting.get(tenant, ())

    def add(self, record: JobRecord, *, is_kept: bool) -> None:
        if not is_kept:
            self._keep_for_waiting(record)
        self._remember(record, is_kept=is_kept)

    def _remember(self, record: JobRecord, *, is_kept: bool) -> None:
        size_bytes = _size(record)
        self._drop(record.job.id)
        if size_bytes > _MOST_BYTES // 4:
            return
        self._ends[record.job.id] = _End(record, size_bytes, is_kept, self._clock.monotonic_s())
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

    def awaiting(self, tenant: str, job_ids: Sequence[str]) -> "Awaiting":
        """While this lasts, those of the jobs that end and are not kept can be found."""
        return Awaiting(self, tenant, job_ids)

    def begin_waiting(self, tenant: str, job_ids: Sequence[str]) -> None:
        waiting = self._waiting.setdefault(tenant, {})
        for job_id in job_ids:
            waiting[job_id] = waiting.get(job_id, 0) + 1
            record = self.find(tenant, job_id, also_kept=False) if job_id in self._ends else None
            if record is not None:
                self._keep_for_waiting(record)

    def end_waiting(self, tenant: str, job_ids: Sequence[str]) -> None:
        waiting = self._waiting.get(tenant, {})  # nothing, if it is about no job, and nobody else waits any more
        for job_id in job_ids:
            if waiting[job_id] > 1:
                waiting[job_id] -= 1
                continue
            del waiting[job_id]
            record = self._let_go((tenant, job_id)) if self._awaited else None
            if record is not None:  # who did not get it may ask again
                self._remember(record, is_kept=False)
        if not waiting:
            self._waiting.pop(tenant, None)

    def _keep_for_waiting(self, record: JobRecord) -> None:
        name = (tenant_of(record.job.jobtype), record.job.id)
        self._let_go(name)
        if name[1] in self.awaited_of(name[0]) and self._has_room(name[0], _size(record)):
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
        self._size_bytes -= 0 if end is None else end.size_bytes


class Awaiting:
    """That somebody waits for jobs, from its start to its end."""

    __slots__ = ("_ends", "_ids", "_tenant")

    def __init__(self, ends: RecentEnds, tenant: str, job_ids: Sequence[str]) -> None:
        self._ends = ends
        self._tenant = tenant
        self._ids = tuple(job_ids)

    def __enter__(self) -> None:
        self._ends.begin_waiting(self._tenant, self._ids)

    def __exit__(self, *_: object) -> None:
        self._ends.end_waiting(self._tenant, self._ids)


def _size(record: JobRecord) -> int:
    log = record.outcome.log if record.outcome else b""
    return record.data_bytes + record.result_bytes + len(log) + 500

"""Jobs that ended on this daemon a moment ago, so that whoever waits for one need not read it back from the store.

Ensures: a job that is not kept stays here as long as somebody waits for it, and for a moment after that, if there is
room for it; the others are forgotten after a moment. Both are bounded in bytes, and those that are waited for also by
tenant. What becomes of a job that is kept (a retry, a deletion) is the store's to say: only who has waited for its end
takes it from here.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager
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

_Name = tuple[str, str]
"""Of a job: its tenant and id."""


class _End(NamedTuple):
    record: JobRecord
    is_kept: bool
    ended_s: float


class RecentEnds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: OrderedDict[str, _End] = OrderedDict()
        self._size_bytes = 0
        self._waiting: dict[_Name, int] = {}
        """How many wait for a job."""
        self._awaited: dict[_Name, JobRecord] = {}
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

    def awaiting(self, tenant: str, job_ids: Sequence[str]) -> AbstractContextManager[None]:
        """While this lasts, those of the jobs that end and are not kept can be found."""
        return _Awaiting(self, tenant, job_ids)

    def await_one(self, tenant: str, job_id: str) -> None:
        name = (tenant, job_id)
        self._waiting[name] = self._waiting.get(name, 0) + 1
        record = self.find(tenant, job_id, also_kept=False)
        if record is not None:
            self._keep_for_waiting(record)

    def leave_one(self, tenant: str, job_id: str) -> None:
        name = (tenant, job_id)
        self._waiting[name] -= 1
        if not self._waiting[name]:
            del self._waiting[name]
            if name in self._awaited:  # who did not get it may ask again
                self._remember(self._let_go(name), is_kept=False)

    def _keep_for_waiting(self, record: JobRecord) -> None:
        name = (tenant_of(record.job.jobtype), record.job.id)
        if name in self._awaited:
            self._let_go(name)
        if name in self._waiting and self._has_room(name[0], _size(record)):
            self._awaited[name] = record
            self._awaited_bytes[name[0]] += _size(record)

    def _has_room(self, tenant: str, size_bytes: int) -> bool:
        quarter_bytes, mine_bytes = _MOST_AWAITED_BYTES // _QUARTERS, self._awaited_bytes[tenant]
        is_mine = mine_bytes < quarter_bytes and mine_bytes + size_bytes <= _MOST_AWAITED_BYTES - quarter_bytes
        return is_mine and self._awaited_bytes.total() + size_bytes <= _MOST_AWAITED_BYTES

    def _let_go(self, name: _Name) -> JobRecord:
        record = self._awaited.pop(name)
        self._awaited_bytes[name[0]] -= _size(record)
        if not self._awaited_bytes[name[0]]:
            del self._awaited_bytes[name[0]]
        return record

    def _drop(self, job_id: str) -> None:
        end = self._ends.pop(job_id, None)
        self._size_bytes -= 0 if end is None else _size(end.record)


class _Awaiting:
    """Without the generator that `contextmanager` would take: each wait for a job has one of these."""

    __slots__ = ("_ends", "_job_ids", "_tenant")

    def __init__(self, ends: RecentEnds, tenant: str, job_ids: Sequence[str]) -> None:
        self._ends = ends
        self._tenant = tenant
        self._job_ids = job_ids

    def __enter__(self) -> None:
        for job_id in self._job_ids:
            self._ends.await_one(self._tenant, job_id)

    def __exit__(self, *_error: object) -> None:
        for job_id in self._job_ids:
            self._ends.leave_one(self._tenant, job_id)


def _size(record: JobRecord) -> int:
    log = record.outcome.log if record.outcome else b""
    return record.data_bytes + record.result_bytes + len(log) + 500

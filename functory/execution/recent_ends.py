"""Jobs that ended on this daemon a moment ago, so that whoever waits for one need not read it back from the store.

Only for those who wait for an end: what becomes of the job later (a replay, a purge) is the store's to say. Bounded in
number, bytes and age.
"""

from collections import OrderedDict
from typing import Final

from store.base import JobRecord
from vocabulary.clock import Clock
from vocabulary.names import tenant_of

_LIFE_S: Final = 2.0
_MOST: Final = 1000
_MOST_BYTES: Final = 4 << 20


class RecentEnds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: OrderedDict[str, tuple[JobRecord, float]] = OrderedDict()
        self._size_bytes = 0

    def add(self, record: JobRecord) -> None:
        size_bytes = _size(record)
        if size_bytes > _MOST_BYTES // 4:
            return
        self._drop(record.job.id)
        self._records[record.job.id] = (record, self._clock.monotonic_s())
        self._size_bytes += size_bytes
        while len(self._records) > _MOST or self._size_bytes > _MOST_BYTES:
            self._drop(next(iter(self._records)))

    def find(self, tenant: str, job_id: str) -> JobRecord | None:
        record, ended_s = self._records.get(job_id, (None, 0.0))
        if record is None or tenant_of(record.job.jobtype) != tenant:
            return None
        return record if self._clock.monotonic_s() - ended_s <= _LIFE_S else None

    def _drop(self, job_id: str) -> None:
        record, _ = self._records.pop(job_id, (None, 0.0))
        self._size_bytes -= 0 if record is None else _size(record)


def _size(record: JobRecord) -> int:
    log = record.outcome.log if record.outcome else b""
    return record.data_bytes + record.result_bytes + len(log) + 500

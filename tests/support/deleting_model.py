"""The model of a store with a journal that may be read again: ids of deleted jobs stay until it was read past them."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from store.base import AddReport, CreateReport, JobState, JournalPosition, NewJob
from store.errors import InvalidValue
from tests.support.store_model import StoreModel


class DeletingModel(StoreModel):
    def __init__(self) -> None:
        super().__init__()
        self.passed = "~"
        """No journal yet."""
        self.gone: set[str] = set()

    def _not_gone(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        return [job for job in jobs if job.id not in self.gone]

    def add_jobs(self, jobs: Sequence[NewJob], *, now_ms: int, position: JournalPosition | None = None) -> AddReport:
        added, _ = super().add_jobs(self._not_gone(jobs), now_ms=now_ms)
        if position is not None and (self.passed == "~" or position.passed > self.passed):
            self.passed = position.passed
        return AddReport(added, len(jobs) - added)

    def create_job(self, new: NewJob, keeps: AbstractSet[str] = frozenset(), *, now_ms: int) -> CreateReport:
        if new.parent == new.id:
            raise InvalidValue(new.parent)
        if new.id in self.gone:
            return CreateReport(new.id, created=False, state=JobState.ARCHIVED)
        return super().create_job(new, keeps, now_ms=now_ms)

    def add_running_jobs(self, owner: str, jobs: Sequence[NewJob], *, lease_ms: int, now_ms: int) -> AddReport:
        added, _ = super().add_running_jobs(owner, self._not_gone(jobs), lease_ms=lease_ms, now_ms=now_ms)
        return AddReport(added, len(jobs) - added)

    def delete_jobs(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> int:
        before = set(self.entries)
        removed = super().delete_jobs(tenant, job_ids, now_ms=now_ms)
        self.gone |= {job_id for job_id in before - self.entries.keys() if job_id > self.passed}
        return removed

    def expire_records(self, *, now_ms: int, audit_before_ms: int) -> int:
        read = {job_id for job_id in self.gone if job_id <= self.passed}
        self.gone -= read
        return len(read)

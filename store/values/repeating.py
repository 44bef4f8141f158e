"""Where a job stands among those of its tenant that repeat, and the cursor that says so."""

from typing import NamedTuple

from store.errors import InvalidValue
from vocabulary.names import is_job_id, is_jobtype, jobtype_of, tenant_of


class RepeatingPlace(NamedTuple):
    jobtype: str
    id: str

    @property
    def cursor(self) -> str:
        return f"{self.jobtype}.{self.id}"  # an id has no dot


def place_of(cursor: str | None, tenant: str) -> RepeatingPlace:
    """Where the page after this cursor begins; None: the first. Raises InvalidValue."""
    if cursor is None:
        return RepeatingPlace(jobtype_of(tenant, ""), "")
    jobtype, _, job_id = cursor.rpartition(".")
    if is_jobtype(jobtype) and tenant_of(jobtype) == tenant and is_job_id(job_id):
        return RepeatingPlace(jobtype, job_id)
    raise InvalidValue(f"cursor {cursor!r:.80} is not one of a listing of jobs that repeat", field="cursor")

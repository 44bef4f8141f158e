"""Jobs by number: the protocol knows a job by a number within its tenant.

A job is numbered when it is first created, handed out or listed here. A number is never another job's of that tenant,
so what was asked once is remembered, up to a bound. Another tenant may get the name of one that was deleted, on any
daemon and at any moment, and its numbers begin at 1 again. So whoever finds that a remembered job is gone asks again.
"""

from collections.abc import Sequence
from typing import Final

from functory.operations.numbered import find_numbered, number_jobs
from functory.operations.service import Service

_MOST: Final = 20_000
_AT_ONCE: Final = 500
"""Jobs that are numbered in one write: others wait for it."""


class Numbers:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._numbers: dict[tuple[str, str], int] = {}
        self._ids: dict[tuple[str, int], str] = {}

    async def of(self, tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
        """The numbers of jobs that exist; new ones are given in this order."""
        known = {job_id: self._numbers.get((tenant, job_id)) for job_id in job_ids}
        missing = [job_id for job_id, number in known.items() if number is None]
        found: dict[str, int] = {}
        for start in range(0, len(missing), _AT_ONCE):
            found |= await number_jobs(self._service, tenant, missing[start : start + _AT_ONCE])
        for job_id, number in found.items():
            self.keep(tenant, job_id, number)
        return {job_id: number for job_id, number in (known | found).items() if number is not None}

    async def find(self, tenant: str, number: int) -> str | None:
        """The id of the job that has the number. It may be gone by now: see `find_anew`."""
        job_id = self._ids.get((tenant, number))
        if job_id is None:
            job_id = await find_numbered(self._service, tenant, number)
            if job_id is not None:
                self.keep(tenant, job_id, number)
        return job_id

    async def find_anew(self, tenant: str, number: int) -> str | None:
        """The same, from the store: for a job that is gone."""
        self._forget(tenant, number)
        return await self.find(tenant, number)

    def keep(self, tenant: str, job_id: str, number: int) -> None:
        if len(self._ids) >= _MOST:
            self._forget(*next(iter(self._ids)))
        self._forget(tenant, number)
        self._numbers[tenant, job_id] = number
        self._ids[tenant, number] = job_id

    def _forget(self, tenant: str, number: int) -> None:
        job_id = self._ids.pop((tenant, number), None)
        if job_id is not None:
            self._numbers.pop((tenant, job_id), None)

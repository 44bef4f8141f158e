"""The verbs for jobs that start before the store has them, checked."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from store.checked.core import CheckedCore
from store.checks import check_lease, check_new_jobs, check_releases, check_time
from store.errors import InvalidValue
from store.names import check_batch, check_label, check_owner, checked_tenant_of
from store.protocol.straight import StraightVerbs
from store.values.jobs import AddReport, NewJob, Release, ReleaseReport, TypeGate
from store.values.positions import JournalPosition

_ID: Final = itemgetter(0)
"""Stands first in a new job, and in every release."""


class CheckedStraight(CheckedCore, StraightVerbs):
    async def get_type_gates(self, jobtypes: Sequence[str]) -> list[TypeGate]:
        check_batch("get_type_gates", len(jobtypes))
        for jobtype in jobtypes:
            checked_tenant_of(jobtype)
        return await self._back.get_type_gates(jobtypes)

    async def add_running_jobs(self, owner: str, jobs: Sequence[NewJob], *, lease_ms: int, now_ms: int) -> AddReport:
        check_owner(owner)
        check_new_jobs(jobs, start_at_once=True)
        check_lease(lease_ms, now_ms)
        return await self._back.add_running_jobs(owner, jobs, lease_ms=lease_ms, now_ms=now_ms)

    async def add_ended_jobs(
        self,
        owner: str,
        jobs: Sequence[NewJob],
        releases: Sequence[Release],
        *,
        now_ms: int,
        position: JournalPosition | None = None,
    ) -> ReleaseReport:
        check_owner(owner)
        check_new_jobs(jobs, start_at_once=True)
        check_releases(releases)
        check_time("now_ms", now_ms)
        if list(map(_ID, jobs)) != list(map(_ID, releases)):
            raise InvalidValue("add_ended_jobs: jobs and releases must name the same ids in the same order")
        if position is not None:
            check_label("journal reader", position.reader)
        return await self._back.add_ended_jobs(owner, jobs, releases, now_ms=now_ms, position=position)

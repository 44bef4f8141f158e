"""Whether a tenant may have what its jobs left behind: the jobs that they asked for, results, what they carry on, logs.

Ensures: new jobs or a result that it may not have become the outcome of that job alone, failed with a 4xx and the
reason, which `on_failure` of its handler gets. A log that does not fit is left out.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from functory.errors import QuotaExceeded
from functory.execution.afterwards import NOTHING_MORE, Afterwards, passed_on
from functory.execution.endings import REFUSED, Admitted, Ending
from functory.execution.outcomes import refusal, shortened, without_log
from functory.execution.wishes import Wish, asked_for, go_into_the_store, wishes_of
from functory.intake.admission import FREE_RESULT_BYTES, Admission
from functory.tenant_limits import TenantLimits
from store.base import Archive, Discard, Finish, Job, Rearm, Release, Retry, Unclaim
from vocabulary.clock import Clock
from vocabulary.names import tenant_of
from vocabulary.new_job import NewJob

_WANTED: Final = itemgetter(2)


class EndingAdmission:
    def __init__(self, admission: Admission, limits_of: Callable[[str], TenantLimits], clock: Clock) -> None:
        self._admission = admission
        self._limits_of = limits_of
        self._clock = clock

    async def admitted(
        self, tenant: str, batch: Sequence[Ending], afterwards: Mapping[tuple[str, int], Afterwards]
    ) -> Sequence[Admitted]:
        """The endings, with a refusal for each that its tenant may not have. Most leave nothing to look at.
        `afterwards`: of those with `on_failure`, by id and token."""
        limits = self._limits_of(tenant)
        if limits.max_bytes is None and not any(map(_WANTED, batch)):
            return batch  # type: ignore[return-value]  # nothing wanted, no wishes
        admitted: list[Admitted] = []
        for job, release, wanted in batch:
            try:
                admitted.append(await self._look_at(job, limits, release, asked_for(job, release, wanted)))
            except REFUSED as error:
                follows = afterwards.get((job.id, job.token), NOTHING_MORE)
                admitted.append(await self.refused(job, release, error, follows))
        return admitted

    async def refused(self, job: Job, release: Release, error: Exception, afterwards: Afterwards) -> Admitted:
        """What stands in place of an ending that was refused. Its reason goes to `on_failure`, unless that is refused,
        too: by the quota, or because it would be one link too many. Of a numbered job nothing goes there."""
        limits = self._limits_of(tenant_of(job.jobtype))
        end = refusal(job, release, error, self._clock.now_ms())
        wanted = passed_on(afterwards, job, end, ()) if job.seq is None else ()
        try:
            return await self._look_at(job, limits, end, wanted)
        except REFUSED:
            return await self._look_at(job, limits, end, ())

    async def _look_at(self, job: Job, limits: TenantLimits, release: Release, wanted: Sequence[NewJob]) -> Admitted:
        wishes = wishes_of(job, wanted, self._clock.now_ms())
        return job, await self._admit(job, limits, release, wishes), wishes

    async def _admit(self, job: Job, limits: TenantLimits, release: Release, wishes: Sequence[Wish]) -> Release:
        """All new jobs of a job, or none; what it carries on counts by how much it grew. Returns the release: without a
        log that does not fit, and of a run that is tried again with no more of its result than fits. Raises
        InvalidWrite, QuotaExceeded."""
        tenant = tenant_of(job.jobtype)
        by_type: defaultdict[str, list[bytes]] = defaultdict(list)
        for wish in wishes:
            by_type[wish.jobtype].append(wish.payload)
        for jobtype, payloads in by_type.items():
            self._admission.check(jobtype, payloads)
            await self._admission.take_type(tenant, limits, jobtype)
        if isinstance(release, Discard) and go_into_the_store(job, wishes):  # what it made may name it, so it is kept
            release = Archive(*release)
        result = None if isinstance(release, Unclaim | Discard) else release.outcome.result
        carried = release.data if isinstance(release, Finish | Retry | Rearm) else None
        grown_bytes = 0 if carried is None else max(len(carried) - len(job.data), 0)
        try:
            await self._admission.take_result(tenant, limits, len(result or b"") + grown_bytes)
        except QuotaExceeded:
            if not isinstance(release, Retry):
                raise
            release = shortened(release, FREE_RESULT_BYTES)  # a long trace is no reason to give the job up
            await self._admission.take_result(tenant, limits, grown_bytes)
        if wishes:
            size_bytes = sum(len(wish.payload) for wish in wishes)
            await self._admission.take(tenant, limits, jobs=len(wishes), size_bytes=size_bytes)
        if isinstance(release, Unclaim | Discard) or not release.outcome.log:
            return release
        try:
            await self._admission.take_result(tenant, limits, len(release.outcome.log))
        except QuotaExceeded:
            return without_log(release)
        return release

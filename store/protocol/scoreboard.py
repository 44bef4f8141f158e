"""Verbs on the scoreboard: counters and buckets, never scans; pause of a type."""

import abc
from collections.abc import Sequence

from store.values.scoreboard import Bucket, FailureGroup, TypeCounters, Usage


class Scoreboard(abc.ABC):
    """Counts that are kept as jobs change state, so that reading them costs nothing per job."""

    @abc.abstractmethod
    async def get_counters(self, tenant: str | None, *, now_ms: int) -> list[TypeCounters]:
        """The counters of a tenant's jobtypes (None: of all tenants), in order of jobtype.

        Every jobtype that has or had a job, or is paused, until its tenant is deleted. Exact at rest; for
        deferred jobs that have just come due as in get_waiting_jobtypes. Where there are no transactions, and
        a process died in the middle of a change, exact again after an expire_locks five minutes later: until
        then the jobs of that one change are counted as before it. Cost: on the number of types.
        """

    @abc.abstractmethod
    async def get_buckets(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int, jobtype: str | None = None
    ) -> list[Bucket]:
        """The non-empty buckets whose start lies in [since_ms, until_ms), in order of (start, jobtype).

        width_ms must be one of RESOLUTIONS, else InvalidValue. A run counts in the bucket of the now_ms of
        its release. Cost: the buckets returned.
        """

    @abc.abstractmethod
    async def list_failure_groups(
        self, tenant: str, *, jobtypes: Sequence[str] | None = None, since_ms: int = 0, limit: int = 100
    ) -> list[FailureGroup]:
        """Groups of these types (None: all) with last_ms >= since_ms, most recent first. At most 1,000 groups a jobtype
        are kept: further new fingerprints count under the fingerprint "other"."""

    @abc.abstractmethod
    async def get_usage(self, tenant: str) -> Usage:
        """What the tenant has stored; zero for an unknown tenant."""

    @abc.abstractmethod
    async def set_type_paused(self, tenant: str, jobtype: str, *, paused: bool) -> bool:
        """Stop or resume handing out jobs of a type, which need not have jobs yet. Running ones go on. Idempotent.
        Returns whether that changed anything."""

    @abc.abstractmethod
    async def expire_records(self, *, now_ms: int, audit_before_ms: int, limit: int = 1000) -> int:
        """Upkeep: remove old buckets (see RESOLUTIONS), failure groups not seen for 60 days, audit events
        before audit_before_ms, lapsed once-values, and daemons that lapsed more than FORGOTTEN_AFTER_MS ago and
        are not among the NEWEST_DAEMONS. And ids of deleted jobs whose lines were read since, or that were deleted more
        than FORGOTTEN_AFTER_MS ago.
        Returns how many, at most limit; idempotent."""

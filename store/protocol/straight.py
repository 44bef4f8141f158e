"""Verbs for jobs that start before the store has them: their line in a journal keeps them until then."""

import abc
from collections.abc import Sequence

from store.values.jobs import AddReport, NewJob, Release, ReleaseReport, TypeGate
from store.values.positions import JournalPosition


class StraightVerbs(abc.ABC):
    """A daemon may start a job whose line is durable in its own journal without adding and claiming it first. It is the
    only one that knows of the job, so nobody else can claim it. Its first delivery has token 1 and is attempt 1.

    Only for plain jobs: InvalidValue for one with a domain, a key, a number of an indexed queue, a lease of its own, a
    repeat, a unique name or a parent.
    """

    @abc.abstractmethod
    async def get_type_gates(self, jobtypes: Sequence[str]) -> list[TypeGate]:
        """Whether jobs of these types may start, in the order given. Nothing is known of a type: version 0, open.

        Cost: one look per type, in one question for all of them.
        """

    @abc.abstractmethod
    async def add_running_jobs(self, owner: str, jobs: Sequence[NewJob], *, lease_ms: int, now_ms: int) -> AddReport:
        """Add jobs that the owner has started: as if they had been added and claimed by it at now_ms.

        Idempotent by id: a job whose id is in the store, in any state, is left as it is and counted as a duplicate.
        Raises InvalidValue (nothing is added) as add_jobs and claim_jobs do.
        """

    @abc.abstractmethod
    async def add_ended_jobs(
        self,
        owner: str,
        jobs: Sequence[NewJob],
        releases: Sequence[Release],
        *,
        now_ms: int,
        position: JournalPosition | None = None,
    ) -> ReleaseReport:
        """Add jobs whose first delivery is over, each with its release; and move the journal's read position.

        The end of a job is the same as if it had been added, claimed by the owner (when its run started) and then
        released. A job that is in the store and runs there as the owner's first delivery (add_running_jobs) is
        released. Any other job whose id is in the store is left as it is and reported as stale: so repeating a call
        that was applied changes nothing, but for jobs that were discarded: of those nothing is known any more, and they
        are counted again. Atomic as release_jobs is; the position as in add_jobs.
        Raises InvalidValue (nothing is changed) as add_jobs and release_jobs do, and where jobs and releases do not
        name the same ids in the same order.
        Cost: one write per job, a few per type in the batch.
        """

"""Verbs on consumers: their records, who leads each, and the window through which its jobs enter the queue.

While a jobtype has a consumer, every job that is added to it is numbered (unless it is pulled: see `append_job`), and
held in the state paused until its number is let into the queue by `move_window`. So claims, caps and fairness are those
of any job. A job with a parent is
numbered and not held by the consumer: its parent decides when it may run.
"""

import abc
from collections.abc import Sequence

from store.values.consumers import ConsumerRecord, EndReport, HoldReport, WindowMove, WindowReport
from store.values.jobs import NewJob


class ConsumerShelf(abc.ABC):
    """A tenant's consumers by name. A jobtype has one consumer at most."""

    @abc.abstractmethod
    async def set_consumer(self, consumer: ConsumerRecord, *, start_index: int | None = None) -> bool:
        """Create a consumer, or change the settings of one. True if it is new. Idempotent.

        Of the record, tenant, name, jobtype, settings and is_pulled are taken, for a new one created_ms and is_running.
        A new one begins at start_index, or where the progress of its type stands: jobs up to there are not held.
        Jobs that are in the queue already stay there until `hold_jobs`.
        Raises Conflict: the name is in use with another jobtype or another is_pulled, or is being deleted; the jobtype
        has another consumer; a new one that is pulled is to start at a number that the type has given already.
        InvalidValue: a name that is no type's, start_index not in 1..MAX_INDEX.
        """

    @abc.abstractmethod
    async def get_consumer(self, tenant: str, name: str) -> ConsumerRecord | None: ...

    @abc.abstractmethod
    async def list_consumers(self, tenant: str | None = None) -> list[ConsumerRecord]:
        """In order of tenant and name: of one tenant, or of all."""

    @abc.abstractmethod
    async def set_consumer_running(self, tenant: str, name: str, *, running: bool) -> None:
        """Stopped, it has no leader: what a former one moves is refused from now on. Idempotent. Raises NotFound."""

    @abc.abstractmethod
    async def end_consumer(
        self, tenant: str, name: str, *, now_ms: int, limit: int = 1000, only_ending: bool = False
    ) -> EndReport:
        """One step of deleting a consumer: repeat while there is more. From the first step on its type is one without a
        consumer, and nobody leads it; jobs that it held enter the queue, at most limit in a step; the record goes last.
        Numbers and progress of the type stay. Atomic per step. only_ending: a further step; a consumer that nobody has
        begun to delete is not touched. Raises NotFound when there is no such consumer."""

    @abc.abstractmethod
    async def lead_consumers(self, owner: str, *, lease_ms: int, now_ms: int, limit: int = 100) -> list[ConsumerRecord]:
        """The running consumers that the owner leads from now on, until now + lease_ms, in order of tenant and name.

        Those that it leads already are renewed; of those whose leader's lease has lapsed it takes at most limit, each
        with a new token. A lease that lasts for more than AHEAD_MS longer than one from now would was taken while the
        clock was ahead, and counts as lapsed. Of two daemons that want the same one, one gets it.
        """

    @abc.abstractmethod
    async def resign_consumers(self, owner: str) -> None:
        """Lead none any more, so that others need not wait for the lease to lapse. Idempotent."""

    @abc.abstractmethod
    async def move_window(self, move: WindowMove, *, now_ms: int) -> WindowReport:
        """Move a window, and look at it.

        Progress goes as far as asked, but not past a number whose job is not over, not past the numbers that were let
        into the queue, and without skip_failed not past one that did not end well; it never falls. `released` goes up
        as asked, at most to the head, and never falls; it stays if progress does not go as far as asked, because then
        the leader is wrong about a job. Held jobs above `after` up to there enter the queue, due now if they
        were due before: a job waits, and has its retry window, from then on. The note replaces the last
        one. A number whose job was deleted or purged counts as over. Idempotent.
        Atomic where there are transactions; elsewhere each step alone, in this order, and a repeated call completes it.
        Raises Conflict (the token is not that of the current leader), InvalidValue (released - after or progress over
        more than MAX_WINDOW).
        """

    @abc.abstractmethod
    async def append_job(self, tenant: str, name: str, token: int, seq: int, job: NewJob, *, now_ms: int) -> bool:
        """Add the job at this number of a pulled consumer, held. False if there is one already, however that ended:
        each number gets one job, whoever asks and how often. A call that a crash interrupted is completed by repeating
        it.

        Raises Conflict (as move_window; seq is not the next number; the consumer is not pulled), InvalidValue (a job of
        another type, one with a parent or a unique name).
        """

    @abc.abstractmethod
    async def look_at_window(self, tenant: str, jobtype: str, *, after: int, until: int) -> WindowReport:
        """As move_window, without changing anything, of any jobtype. Raises InvalidValue: more than MAX_WINDOW."""

    @abc.abstractmethod
    async def get_last_numbers(self, jobtypes: Sequence[str]) -> list[int]:
        """The last number given in each of these types, 0 where none was. Its job may not have been added yet.

        Cost: one read for all of them, whatever waits. Raises InvalidValue: more than MAX_BATCH."""

    @abc.abstractmethod
    async def hold_jobs(
        self, tenant: str, name: str, token: int, *, after: int, now_ms: int, limit: int = 1000
    ) -> HoldReport:
        """Hold jobs that are in the queue with a number above what was released: those after `after`, limit numbers in
        a step. Idempotent. Raises Conflict as move_window."""

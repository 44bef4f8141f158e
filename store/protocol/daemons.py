"""Verbs on daemons: their sysids, their leases on them, and what each says about itself."""

import abc

from store.values.records import Daemon


class DaemonRegister(abc.ABC):
    """Sysids are short base-36 numbers from a counter that only grows: none is ever given twice by a store."""

    @abc.abstractmethod
    async def reserve_sysid(self, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        """A new sysid, held until now + lease_ms. Atomic; not idempotent (a lost answer costs one number).

        Raises Conflict while the store is being filled from another (see begin_import).
        Records of daemons that lapsed more than FORGOTTEN_AFTER_MS ago, and are not among the NEWEST_DAEMONS, are
        removed on the way.
        """

    @abc.abstractmethod
    async def renew_sysid(self, sysid: str, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        """Hold it until now + lease_ms and replace the info. Idempotent.

        A sysid that lapsed is held again: nobody else can have got it, since none is given twice, and a daemon
        must be able to go on after the store was away for longer than its lease.
        Raises NotFound when it was released (or forgotten): the daemon must stop using it and reserve another.
        """

    @abc.abstractmethod
    async def release_sysid(self, sysid: str) -> None:
        """Give it back; releasing what is not held changes nothing. It is not given out again."""

    @abc.abstractmethod
    async def forget_daemons(self, *, skip: int) -> int:
        """Remove the records of all daemons, and leave out the next skip sysids. Returns how many there were.

        For a copy of a store that begins a life of its own: the original may go on giving the sysids that follow,
        and jobs of the two must not get the same ids. Only while no daemon uses the copy: one that did would have
        to stop at its next renewal. Atomic; not idempotent (repeated, it skips again, which does no harm).
        Raises InvalidValue: skip not in 0..MAX_SYSIDS_SKIPPED.
        """

    @abc.abstractmethod
    async def list_daemons(self, *, now_ms: int) -> list[Daemon]:
        """The daemons whose lease holds at now_ms, oldest first."""

    @abc.abstractmethod
    async def set_daemon_paused(self, sysid: str, *, paused: bool) -> None:
        """The daemon learns of it at its next renewal. Idempotent. Raises NotFound."""

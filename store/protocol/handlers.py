"""Verbs on handlers: what a tenant registered for a jobtype, with its versions."""

import abc

from store.values.records import Handler, HandlerSummary, NewHandler


class HandlerShelf(abc.ABC):
    """Handlers by jobtype, newest in force. Every version is immutable."""

    @abc.abstractmethod
    async def set_handler(
        self, tenant: str, new: NewHandler, *, after: int | None = None, exactly: bool = False
    ) -> Handler:
        """Put a new version in force, and return it. Atomic.

        The same lang and data as the version in force make no new version: that one is returned (idempotent).
        With `after`, the version that was in force at its created_ms (0: none), nothing is changed if that was deleted
        since, or replaced by a version that was asked for later: by its created_ms. exactly: by any version. None:
        whatever is in force is replaced.
        tree is the digest of the list of the handler's files, "" if it is no folder; `list_trees` has it.
        Of the versions of this jobtype the newest VERSIONS_KEPT stay, older ones are removed.
        Raises Conflict; InvalidValue: data over MAX_HANDLER_BYTES, malformed names.
        """

    @abc.abstractmethod
    async def get_handler(self, tenant: str, jobtype: str, version: int | None = None) -> Handler | None:
        """The version in force, or that version (also of a deleted handler), or None."""

    @abc.abstractmethod
    async def delete_handler(self, tenant: str, jobtype: str) -> bool:
        """Put none in force; versions are kept and can be rolled back to. False if none was in force."""

    @abc.abstractmethod
    async def roll_back_handler(
        self, tenant: str, jobtype: str, version: int, *, now_ms: int, author: str = ""
    ) -> Handler:
        """Put a copy of an older version in force, as a new version with restored_from; if that is
        what is in force already, nothing changes. Of the versions the newest stay, as in set_handler.
        Raises NotFound."""

    @abc.abstractmethod
    async def list_handlers(self, tenant: str) -> list[HandlerSummary]:
        """The versions in force, in order of jobtype."""

    @abc.abstractmethod
    async def list_handled_types(self, tenant: str) -> list[str]:
        """The jobtypes that have a handler in force, in order: a fraction of what list_handlers costs."""

    @abc.abstractmethod
    async def list_handler_versions(self, tenant: str, jobtype: str) -> list[HandlerSummary]:
        """All kept versions of one jobtype, newest first."""

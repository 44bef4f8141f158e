"""The handlers in force, decoded for the runner. Kept by version, so the store is read only after a change.

Ensures: no more than so many are kept, and no more than so many bytes, however large tenants make them. Nothing that
was read of a tenant before it was forgotten is kept after that.
"""

from collections import OrderedDict
from collections.abc import Container
from typing import Final, NamedTuple

from functory.execution.handler_document import decode_handler
from handlers.errors import HandlerError
from handlers.model import Handler
from store.base import Store
from vocabulary.names import tenant_of

_MOST: Final = 2000
_MOST_BYTES: Final = 32 << 20


class _Known(NamedTuple):
    version: int
    handler: Handler
    size_bytes: int
    """As stored."""


class HandlerCache:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._handlers: OrderedDict[str, _Known] = OrderedDict()
        self._bytes = 0
        self._forgotten = 0
        """How often something was."""

    def forget(self, tenant: str) -> None:
        """The tenant is gone: the versions of another of that name begin anew."""
        self._forgotten += 1
        for jobtype in [jobtype for jobtype in self._handlers if tenant_of(jobtype) == tenant]:
            self._drop(jobtype)

    async def is_in(self, languages: Container[str], jobtype: str, version: int) -> bool:
        """Whether the handler of that version is in one of the languages. If it is gone or cannot be read, that is said
        where it would run."""
        try:
            handler = await self.get(jobtype, version)
        except HandlerError:
            return True
        return handler is None or handler.lang in languages

    async def get(self, jobtype: str, version: int) -> Handler | None:
        """The handler of that version; None when it was deleted meanwhile."""
        known = self._handlers.get(jobtype)
        if known is not None and known.version == version:
            self._handlers.move_to_end(jobtype)
            return known.handler
        forgotten = self._forgotten
        stored = await self._store.get_handler(tenant_of(jobtype), jobtype, version)
        if stored is None:
            return None
        handler = decode_handler(stored.data)
        if forgotten == self._forgotten:
            self._keep(jobtype, _Known(version, handler, len(stored.data)))
        return handler

    def _keep(self, jobtype: str, known: _Known) -> None:
        self._drop(jobtype)
        self._handlers[jobtype] = known
        self._bytes += known.size_bytes
        while len(self._handlers) > _MOST or self._bytes > _MOST_BYTES:
            self._drop(next(iter(self._handlers)))

    def _drop(self, jobtype: str) -> None:
        known = self._handlers.pop(jobtype, None)
        self._bytes -= 0 if known is None else known.size_bytes

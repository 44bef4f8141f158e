"""The handlers in force, decoded for the runner. Kept by version, so the store is read only after a change.

Ensures: no more than so many are kept, and no more than so many bytes, however large tenants make them. Once it is
known that another tenant has a name, nothing is returned that was read before: the versions of each begin at 1.
"""

from collections import OrderedDict
from collections.abc import Callable, Container
from typing import Final, NamedTuple

from functory.execution.handler_document import decode_handler
from handlers.errors import HandlerError
from handlers.model import Handler
from store.base import Store
from vocabulary.names import tenant_of

_MOST: Final = 2000
_MOST_BYTES: Final = 32 << 20


class _Known(NamedTuple):
    incarnation: int
    """Of the tenant, as it was known when this was read."""
    version: int
    handler: Handler
    size_bytes: int
    """As stored."""


class HandlerCache:
    def __init__(self, store: Store, incarnation_of: Callable[[str], int]) -> None:
        """incarnation_of: tells a tenant from others that had its name, as far as this daemon knows."""
        self._store = store
        self._incarnation_of = incarnation_of
        self._handlers: OrderedDict[str, _Known] = OrderedDict()
        self._bytes = 0

    async def may_start(self, languages: Container[str], jobtype: str, version: int) -> bool:
        """Whether jobs of the handler of that version may start before the store has them: it is in one of the
        languages, and they need no token. If it is gone or cannot be read, that is said where it would run."""
        try:
            handler = await self.get(jobtype, version)
        except HandlerError:
            return True
        return handler is None or (handler.lang in languages and not handler.domain)

    async def get(self, jobtype: str, version: int) -> Handler | None:
        """The handler of that version; None when it was deleted meanwhile."""
        tenant = tenant_of(jobtype)
        incarnation = self._incarnation_of(tenant)
        known = self._handlers.get(jobtype)
        if known is not None and (known.incarnation, known.version) == (incarnation, version):
            self._handlers.move_to_end(jobtype)
            return known.handler
        stored = await self._store.get_handler(tenant, jobtype, version)
        if stored is None:
            return None
        handler = decode_handler(stored.data)
        self._keep(jobtype, _Known(incarnation, version, handler, len(stored.data)))
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

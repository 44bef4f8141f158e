"""The handlers in force, decoded for the runner. Kept by version, so the store is read only after a change."""

from collections import OrderedDict
from collections.abc import Container

from functory.execution.handler_document import decode_handler
from handlers.errors import HandlerError
from handlers.model import Handler
from store.base import Store
from vocabulary.names import tenant_of

_KEPT = 2000


class HandlerCache:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._handlers: OrderedDict[str, tuple[int, Handler]] = OrderedDict()

    def forget(self, tenant: str) -> None:
        """The tenant is gone: the versions of another of that name begin anew."""
        for jobtype in [jobtype for jobtype in self._handlers if tenant_of(jobtype) == tenant]:
            del self._handlers[jobtype]

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
        if known is not None and known[0] == version:
            self._handlers.move_to_end(jobtype)
            return known[1]
        stored = await self._store.get_handler(tenant_of(jobtype), jobtype, version)
        if stored is None:
            return None
        handler = decode_handler(stored.data)
        self._handlers[jobtype] = (version, handler)
        while len(self._handlers) > _KEPT:
            self._handlers.popitem(last=False)
        return handler

"""The handlers in force, as the runner wants them: kept by version, so that a look costs a database read only after a
change."""

from collections import OrderedDict

from functory.handlerdocument import decode_handler
from handlers.model import Handler
from scheduler import tenant_of
from store.base import Store

_KEPT = 2000


class HandlerCache:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._handlers: OrderedDict[str, tuple[int, Handler]] = OrderedDict()

    async def get(self, jobtype: str, version: int) -> Handler | None:
        """The handler of that version; None when it was deleted in the meantime."""
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

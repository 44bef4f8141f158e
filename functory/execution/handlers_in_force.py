"""The handler in force of a type, as the daemon knows it for its jobs: what this daemon changed holds at once, what
another one changed as soon as it tells, or after a poll. So a handler that is called again and again is not read from
the store each time."""

from functory.execution.handler_cache import HandlerCache
from functory.execution.straight.type_gates import TypeGates
from handlers.model import Handler
from store.base import Store


class HandlersInForce:
    def __init__(self, store: Store, gates: TypeGates, handlers: HandlerCache) -> None:
        self._store = store
        self._gates = gates
        self._handlers = handlers

    async def get(self, jobtype: str) -> Handler | None:
        """None if the type has none. Raises HandlerError for one that cannot be read, StoreUnavailable."""
        gate = self._gates.ask(jobtype)  # if it is not known, it is by the next time
        if gate is None:
            (gate,) = await self._store.get_type_gates([jobtype])
        return await self._handlers.get(jobtype, gate.handler_version) if gate.handler_version else None

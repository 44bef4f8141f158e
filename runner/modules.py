"""Machine code of wasm modules, kept so that a context starts without compiling. Bounded in bytes, least
recently used goes.

The code is made in a sandboxed process of the tenant that the module belongs to (`ProcessContext.check`),
which ran none of it, and is given only to contexts of that tenant: what one tenant's module could do to its
own compiler reaches nobody else.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

Key = tuple[str, str, int]  # tenant, handler version, incarnation of the tenant


class CompiledModules:
    """`get` compiles at most once at a time per module, however many batches ask for it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._code: OrderedDict[Key, bytes] = OrderedDict()
        self._making: dict[Key, asyncio.Task[bytes]] = {}

    async def get(self, key: Key, compile_module: Callable[[], Awaitable[bytes]]) -> bytes:
        """The code of `key`, from memory or made now. Raises what `compile_module` raises."""
        if key in self._code:
            self._code.move_to_end(key)
            return self._code[key]
        task = self._making.get(key)
        if task is None:
            task = asyncio.ensure_future(_run(compile_module))
            self._making[key] = task
            task.add_done_callback(lambda _: self._making.pop(key, None))
        code = await asyncio.shield(task)
        self.put(key, code)
        return code

    def forget(self, tenant: str) -> None:
        """The tenant is gone; whoever gets its name compiles anew."""
        for key in [key for key in self._code if key[0] == tenant]:
            self._held_bytes -= len(self._code.pop(key))

    def put(self, key: Key, code: bytes) -> None:
        self._held_bytes += len(code) - len(self._code.pop(key, b""))
        self._code[key] = code
        while self._held_bytes > self._max_bytes and len(self._code) > 1:
            self._held_bytes -= len(self._code.popitem(last=False)[1])


async def _run(compile_module: Callable[[], Awaitable[bytes]]) -> bytes:
    return await compile_module()

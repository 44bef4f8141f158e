"""The wasm side of a context: runs WASI command modules with the wasmtime package, a fresh instance for every
job.

The tenant's code never leaves the instance: it sees its payload on stdin, its environment, a clock and random
numbers, no files and no sockets. Compilation (`check`) and execution happen in different processes: machine
code travels through the daemon, which keeps it, so a context starts without compiling. What `load` is given
comes from a `check` of the same tenant's module, in which none of the module's code ran.

The protocol and the job's log are those of `python.py` beside it.
"""

from __future__ import annotations

import base64
import ctypes
import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import wasmtime

    from handlers.bootstraps import python
else:

    def _load(name, file, **more):
        """By path: a sandbox shows the package, not the folder that an import would search."""
        if name not in sys.modules:  # a warm template has it already
            spec = importlib.util.spec_from_file_location(name, file, **more)
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]

    python = _load("python", os.path.join(os.path.dirname(__file__), "python.py"))
    wasmtime = _load("wasmtime", os.path.join(sys.argv[1], "__init__.py"), submodule_search_locations=sys.argv[1:])

WASI = "wasi_snapshot_preview1"
START = b"_start"
FUNC = 0  # as wasmtime_extern_t says it
CODES = {0: 200, 65: 400, 75: 100}
# What this interpreter itself takes of the context's memory; the rest is the instance's.
OWN_MEMORY_MB = 40
# (module (memory 1) (func (export "_start")))
NOTHING = bytes.fromhex("0061736d01000000010401600000030201000503010001070a01065f737461727400000a040102000b")


class Wasm:
    """The engine."""

    log: python.Log

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.parallel_compilation = False  # threads would count as processes of the tenant
        self.engine = wasmtime.Engine(config)
        self.linker = wasmtime.Linker(self.engine)
        self.linker.define_wasi()
        self.made: tuple[wasmtime.WasiConfig, wasmtime.Store] | None = None

    def rehearse(self) -> None:
        """The first job of a process costs milliseconds of page faults and lazy binding: have that now."""
        python.rehearse(self, {"body": ""}, bytes(wasmtime.Module(self.engine, NOTHING).serialize()))
        self.made = self.surroundings()

    def check(self, spec: dict[str, Any]) -> bytes:
        module = self.compile(spec)
        for wanted in module.imports:
            if wanted.module != WASI:
                raise python.Refused("body", f"imports {wanted.module}.{wanted.name}; only {WASI} is there")
        if not any(e.name == "_start" and isinstance(e.type, wasmtime.FuncType) for e in module.exports):
            raise python.Refused("body", "exports no _start function; build a WASI command, not a library")
        return bytes(module.serialize())

    def compile(self, spec: dict[str, Any]) -> wasmtime.Module:
        try:
            return wasmtime.Module(self.engine, base64.b64decode(spec["body"]))
        except wasmtime.WasmtimeError as err:
            raise python.Refused("body", f"is not a valid module: {err}") from None

    def load(self, spec: dict[str, Any]) -> python.Slot:
        self.log.take_statuses()
        code = spec["attachment"]
        module = wasmtime.Module.deserialize(self.engine, code) if code else self.compile(spec)
        return python.Slot(spec["type"], spec["limits"], lambda _, ctx: self.run(module, ctx))

    def run(self, module: wasmtime.Module, ctx: python.Context) -> object:
        env = {**os.environ, "JOB_ID": ctx.id, "JOB_ATTEMPT": str(ctx.attempt)}
        if ctx.children:
            env["JOB_CHILDREN"] = python.as_table(ctx.children)
        if ctx.follows is not None:
            names = ("JOB_FOLLOWS", "JOB_FOLLOWS_TYPE", "JOB_FOLLOWS_CODE")
            env.update(zip(names, ctx.follows.values(), strict=True))
        try:
            status = self.execute(module, ctx.payload_bytes, env, ctx.slot.limits["memory_mb"] - OWN_MEMORY_MB)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as err:
            return python.BROKEN, str(err)[: python.TEXT_MAX].encode()
        finally:
            self.log.settle(final=True)
        if self.log.carried is not None:
            ctx.carry(self.log.carried)
        if self.log.status is not None:
            return self.log.status
        return CODES.get(status) or (python.BROKEN, f"exit status {status}".encode())

    def execute(self, module: wasmtime.Module, payload: bytes, env: dict[str, str], memory_mb: int) -> int:
        """Run a fresh instance to its end; its exit status. Raises Trap or WasmtimeError."""
        wasi, store = self.surroundings()
        try:
            wasi.env = env.items()
            give_stdin(wasi, payload)
            store.set_limits(memory_size=memory_mb << 20)
            store.set_wasi(wasi)
            start(store, self.linker.instantiate(store, module))
        except wasmtime.ExitTrap as err:
            return err.code
        finally:
            store.close()  # else its memory and its descriptors stay until the collector comes by, and may run out
        return 0

    def surroundings(self) -> tuple[wasmtime.WasiConfig, wasmtime.Store]:
        """What an instance needs and no tenant has a say in. Those of the first job were made before there was one."""
        made, self.made = self.made, None
        if made is None:
            wasi = wasmtime.WasiConfig()
            wasi.argv = ["handler"]
            wasi.stdout_custom = wasi.stderr_custom = self.print
            made = wasi, wasmtime.Store(self.engine)
        return made

    def print(self, data: bytes) -> int:
        return self.log.buffer.write(data)


# The package's own ways to do what follows take a good part of a short job's time: they list all exports, ask for types
# that are known here and make a type for each length of bytes. So these two call the functions beneath.
ffi: Any = wasmtime._bindings  # noqa: SLF001  the package has no public name for it
entered: Any = wasmtime._func.enter_wasm  # noqa: SLF001  makes exceptions of traps, as the package does


def give_stdin(wasi: wasmtime.WasiConfig, payload: bytes) -> None:
    """From memory, which is copied: the package offers files only, and quick jobs would run out of descriptors."""
    taken = ffi.wasm_byte_vec_t()
    at = ctypes.cast(ctypes.c_char_p(payload), ctypes.POINTER(ctypes.c_ubyte))
    ffi.wasm_byte_vec_new(ctypes.byref(taken), len(payload), at)
    ffi.wasi_config_set_stdin_bytes(wasi.ptr(), ctypes.byref(taken))


def start(store: wasmtime.Store, instance: wasmtime.Instance) -> None:
    """Call `_start`. Raises Trap or WasmtimeError, of which ExitTrap is one."""
    context, found = store._context(), ffi.wasmtime_extern_t()  # noqa: SLF001
    at = ctypes.byref(instance._instance)  # noqa: SLF001
    if not ffi.wasmtime_instance_export_get(context, at, START, len(START), ctypes.byref(found)) or found.kind != FUNC:
        raise wasmtime.WasmtimeError("_start is not a function")
    with entered(store) as trap:
        error = ffi.wasmtime_func_call(context, ctypes.byref(found.of.func), None, 0, None, 0, trap)
        if error:
            raise wasmtime.WasmtimeError._from_ptr(error)  # noqa: SLF001


def prepare() -> Callable[[], None]:
    python.tell_crashes()  # first: a trap of the tenant's code is such a signal, and the engine makes an error of it
    engine = Wasm()
    engine.rehearse()
    return python.ready(engine)


if __name__ == "__main__":
    prepare()()

"""Programs that contexts run in the interpreter of their spawner. Each is a file of our own; no tenant's is run here.

A file with a `prepare` is run once in the spawner, as far as its definitions, and its `warm_up` is called if it has
one: contexts then share what they would all have done. `prepare` is called in the context, before the tenant is known,
and returns what serves the tenant. Any other file is run in the context, from its first line.
"""

import gc
import os
import sys
import types
from collections.abc import Callable, Sequence

Program = Callable[[], None]


class Loaded:
    """One of them, with the definitions that contexts share, if it has a `prepare`."""

    def __init__(self, argv: Sequence[str]) -> None:
        with open(argv[0], "rb") as file:  # noqa: PTH123
            self._code = compile(file.read(), argv[0], "exec", dont_inherit=True)
        self._module: types.ModuleType | None = None
        if "prepare" in self._code.co_names:
            before, sys.argv = sys.argv, list(argv)
            modules, path = set(sys.modules), list(sys.path)
            try:
                self._module = self._definitions(argv[0])
            except Exception:  # noqa: BLE001  # the context will meet the same, and tell it
                sys.path[:] = path
                for name in set(sys.modules) - modules:  # one may be half loaded
                    del sys.modules[name]
            finally:
                sys.argv = before

    def prepared(self, argv: Sequence[str]) -> Program:
        """To be called in the context: what `python -I file args` would do next."""
        module = self._module or _main_module(argv[0])
        sys.modules["__main__"] = module
        sys.argv = list(argv)
        if self._module is None:
            return lambda: exec(self._code, module.__dict__)  # noqa: S102  # our own program
        program: Program = module.prepare()
        return program

    def _definitions(self, path: str) -> types.ModuleType:
        module = _main_module(path)
        namespace = module.__dict__
        namespace["__name__"] = "prepared"  # so that it does not go on by itself
        exec(self._code, namespace)  # noqa: S102
        namespace["__name__"] = "__main__"
        if "warm_up" in namespace:
            namespace["warm_up"]()
        return module


class Programs:
    """Those that were wanted so far, each read again when its file has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Loaded] = {}

    def load(self, argv: Sequence[str]) -> Loaded:
        """To be called in the spawner. Raises OSError or SyntaxError for a file that cannot be read."""
        key = (argv[0], os.stat(argv[0]).st_mtime_ns)  # noqa: PTH116  # no pathlib in contexts
        if key not in self._known:
            self._known[key] = Loaded(argv)
            gc.collect()
            gc.freeze()
        return self._known[key]


def _main_module(path: str) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__file__ = path
    return module

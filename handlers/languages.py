"""The table of languages: what runs a body, with which bootstrap, within which bounds.

Adding a language is a bootstrap file that speaks docs/runner-protocol.md, one row here, and its name in the types of
the wire; `php` is the example. The rows say what to start and never start it: that is the runner's business.
"""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from types import MappingProxyType
from typing import Final

from vocabulary.names import WORKER
from vocabulary.sizes import MIB

BOOTSTRAPS: Final = Path(__file__).resolve().parent / "bootstraps"


@dataclass(frozen=True, slots=True)
class Language:
    """One row.

    `command` is looked up on the PATH when a context is started, so installing it later is enough.
    """

    name: str
    command: str = ""  # "" = Python itself; the bootstrap of several languages is a Python program
    arguments: tuple[str, ...] = ()
    bootstrap: str = ""  # "" = no context: the runner does the work itself (http)
    modules: tuple[str, ...] = ()  # importable packages that the bootstrap needs beyond the standard library
    template: str | None = None  # warm process to fork from, where the launcher has it
    shares: tuple[str, ...] = ()  # other bootstraps that this one loads
    needs: tuple[str, ...] = ()  # commands that the bootstrap starts
    returns_values: bool = False  # a handler returns a value of its language, not an exit status
    own_process: bool = False  # the bootstrap keeps a process beside it from batch to batch
    packages_from: str = ""  # what resolves and installs packages for it
    is_external: bool = False  # no daemon runs it: workers take its jobs
    hooks: bool = True  # before, beforeEach, afterEach make sense
    suffixes: tuple[str, ...] = ()  # of a file whose content is the body
    folder_suffixes: tuple[str, ...] = ()  # of the entry file of a folder; () = its handlers are no folders
    is_binary: bool = False  # the body is base64 of a module, which the runner decodes and checks
    connects: bool = True  # what runs in its context can open connections
    body_max_bytes: int = 1 * MIB
    min_memory_mb: int = 16
    reserved_mb: int = 0  # that its program makes writable at its start, whether it will use it or not

    @property
    def in_context(self) -> bool:
        return bool(self.bootstrap)

    def argv(self) -> tuple[str | Path, ...]:
        """What to run: a Path for every file or folder that the program must find. Raises FileNotFoundError with the
        name of what is missing.

        The folders of `modules` follow as arguments: the interpreter is the plain one, tenants do not get to
        import from the virtual environment of the daemon.
        """
        for command in self.needs:
            _find(command)
        return (self._program(), *self.arguments, BOOTSTRAPS / self.bootstrap, *self.packages())

    def missing(self) -> str | None:
        """The command or package that this machine lacks for the language, or None."""
        if not self.in_context:
            return None
        try:
            self.argv()
        except FileNotFoundError as err:
            return str(err)
        return None

    def preload(self) -> tuple[Path, ...]:
        """What a warm template should have loaded, so that a new context finds it there."""
        return (*(BOOTSTRAPS / name for name in self.shares), *self.packages())

    def packages(self) -> tuple[Path, ...]:
        """The folders of `modules`."""
        return tuple(_package(module) for module in self.modules)

    def _program(self) -> Path:
        return _find(self.command) if self.command else Path(sys.executable).resolve()


def _find(command: str) -> Path:
    path = shutil.which(command)
    if path is None:
        raise FileNotFoundError(command)
    return Path(path).resolve()  # what a link in somebody's home points to is what a context must be handed


def _package(module: str) -> Path:
    spec = util.find_spec(module)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"python package {module}")
    return Path(spec.origin).parent


_PYTHON: Final = ("-IS",)  # isolated, and without the packages that were installed beside the interpreter
_PHP: Final = ("-n", "-d", "include_path=.")  # no extensions of this machine, and no libraries

LANGUAGES: Final[Mapping[str, Language]] = MappingProxyType(
    {
        row.name: row
        for row in (
            Language(
                "python",
                arguments=_PYTHON,
                bootstrap="python.py",
                template="python",
                returns_values=True,
                packages_from="uv",
                suffixes=(".py",),
                folder_suffixes=(".py",),
            ),
            Language(
                "node",
                command="node",
                bootstrap="node.js",
                returns_values=True,
                packages_from="npm",
                suffixes=(".js",),
                folder_suffixes=(".mjs", ".js", ".cjs", ".ts", ".mts", ".cts"),
                min_memory_mb=64,
                reserved_mb=512,  # for machine code, from version 24 on
            ),
            Language(
                "sh",
                arguments=_PYTHON,
                bootstrap="sh.py",
                template="python",
                shares=("python.py",),
                needs=("sh",),
                own_process=True,
                suffixes=(".sh",),
                folder_suffixes=(".sh",),
            ),
            Language(
                "wasm",
                arguments=_PYTHON,
                bootstrap="wasm.py",
                modules=("wasmtime",),
                template="python",
                shares=("python.py",),
                hooks=False,
                suffixes=(".wasm",),
                is_binary=True,
                connects=False,
                body_max_bytes=22 * MIB,  # base64 of 16 MB
                min_memory_mb=64,
            ),
            Language(
                "php",
                command="php",
                arguments=_PHP,
                bootstrap="php.php",
                min_memory_mb=32,
                returns_values=True,
                suffixes=(".php",),
                folder_suffixes=(".php",),
            ),
            Language("http", hooks=False, body_max_bytes=2048),
            Language(WORKER, hooks=False, body_max_bytes=64 * 1024, is_external=True),
        )
    }
)

LANGUAGE_OF_FILE: Final[Mapping[str, str]] = MappingProxyType(
    {suffix: row.name for row in LANGUAGES.values() for suffix in row.suffixes}
)
"""By the suffix of a file whose content is the body."""
LANGUAGE_OF_ENTRY: Final[Mapping[str, str]] = MappingProxyType(
    {suffix: row.name for row in LANGUAGES.values() for suffix in row.folder_suffixes}
)
"""By the suffix of the entry file of a folder."""

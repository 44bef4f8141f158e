"""Kinds of contexts: what those have in common that can stand in for each other until they get going."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from runner.errors import LaunchError
from runner.launch import LaunchSpec, Limits
from runner.sandbox.interpreter import Interpreter
from runner.sandbox.runtime import View


class TreeIdentity(NamedTuple):
    """The folder of a handler. One that was removed and made anew at the same path is another: a context that was given
    the old one finds nothing in it."""

    path: Path
    inode: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "TreeIdentity":
        """Raises LaunchError when there is none. Asks the disk: not for the event loop."""
        try:
            found = path.stat()
        except OSError as error:
            raise LaunchError(f"the folder of the handler cannot be read: {error}") from error
        return cls(path, found.st_ino, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Kind:
    """Without packages and a folder it belongs to no tenant."""

    argv: tuple[str | Path, ...]
    fork: bool
    limits: Limits
    view: View
    tree: TreeIdentity | None = None

    @property
    def is_tenants(self) -> bool:
        return self.view.packages is not None or self.tree is not None


def kind_of(spec: LaunchSpec, python: Interpreter, tree: TreeIdentity | None) -> Kind:
    """Raises LaunchError for a spec that nothing can be started from."""
    fork = spec.template == "python"
    if len(spec.argv) < (3 if fork else 1):
        raise LaunchError("the program is missing")
    if fork and not isinstance(spec.argv[2], Path):
        raise LaunchError("the file that a fork runs is a Path, so that the context gets it")
    given = {*spec.readable, *(part for part in spec.argv[2 if fork else 0 :] if isinstance(part, Path))}
    if relative := [str(path) for path in given if not path.is_absolute()]:
        raise LaunchError(f"paths in a LaunchSpec are absolute, these are not: {', '.join(relative)}")
    preload = spec.preload if fork else ()
    trees = None if tree is None else tree.path.parent
    view = View(python, tuple(sorted(given)), spec.network, spec.egress, preload, spec.packages, trees, spec.serves)
    return Kind(spec.argv[2:] if fork else spec.argv, fork, spec.limits, view, tree)

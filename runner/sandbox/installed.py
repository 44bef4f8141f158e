"""What was installed on this machine beside its languages: python packages, node modules, php libraries.

A handler that could import them would depend on the machine that it happens to run on, and would read code that was
put there for somebody else. With a root of their own, contexts find these folders empty; where they see the machine's
files, Landlock leaves these folders out. The interpreter itself searches its standard library only (`-S`).
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from runner.sandbox.interpreter import Interpreter

_MACHINE: Final = (Path("/usr"), Path("/usr/local"))
_PYTHON: Final = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib64/python3*/site-packages")
_OTHERS: Final = ("lib/node_modules", "share/php")
"""Not /usr/share/nodejs: Debian's node keeps parts of itself there. The bootstrap of node does not search it."""


def folders(python: Interpreter) -> tuple[str, ...]:
    """Those that exist, as the machine has them. Reads directories: not for the event loop."""
    prefixes = {*_MACHINE, *map(Path, python.prefixes)}
    found = itertools.chain.from_iterable(
        prefix.glob(pattern) for prefix in prefixes for pattern in (*_PYTHON, *_OTHERS)
    )
    return tuple(sorted(str(path) for path in found if path.is_dir() and not path.is_symlink()))


def without(paths: Iterable[str], hidden: Iterable[str]) -> tuple[str, ...]:
    """The same files as below `paths`, but for those below `hidden`, as paths that can be granted one by one.

    Landlock only adds: so a folder with something hidden below it gives way to what is in it. Links in such a folder
    are left out, or they would grant what they point to. Reads directories: not for the event loop.
    """
    gone = frozenset(map(Path, hidden))
    starts = (Path(start).resolve() for start in paths)  # /lib is /usr/lib on most machines
    return tuple(dict.fromkeys(str(path) for start in starts for path in _without(start, gone)))


def _without(path: Path, hidden: frozenset[Path]) -> Iterator[Path]:
    if path in hidden:
        return
    if not any(other.is_relative_to(path) for other in hidden):
        yield path
        return
    for inner in sorted(path.iterdir()):
        if not inner.is_symlink():
            yield from _without(inner, hidden)

"""The python that contexts are forked from: where it is, what must be readable for it, and who can reach it.

By default the daemon's own, outside any virtual environment: tenants do not see the daemon's packages.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.errors import IsolationError
from runner.sandbox.handover import ROOT, is_open, is_reachable

_SYSTEM: Final = "/usr/bin/python3"
_QUESTION: Final = "import sys; print(sys.base_prefix, sys.base_exec_prefix, sep='\\n')"
_ANSWER_TIMEOUT_S: Final = 30
_COVERED: Final = ("/tmp", "/dev", "/proc")  # noqa: S108  # where a root of its own has other things


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: str
    prefixes: tuple[str, ...]  # where its library is, if not below /usr

    def is_usable_by_all(self) -> bool:
        """Whether any uid can get to it and read it; one that lives in somebody's home often cannot be reached."""
        return self.is_readable_by_all() and all(map(is_reachable, self._landmarks()))

    def is_readable_by_all(self) -> bool:
        """As `is_usable_by_all`, where all of its folders are put in a context's own root."""
        return all(map(is_open, self._landmarks()))

    def inside(self) -> "Interpreter":
        """As a root of its own has it: at the same place, unless the root covers that with something else."""
        moved = _moved(self.prefixes)
        home = next((prefix for prefix in moved if self.path.startswith(f"{prefix}/")), None)
        path = self.path if home is None else moved[home] + self.path.removeprefix(home)
        return Interpreter(path, tuple(moved.values()))

    def binds(self) -> dict[str, str]:
        """What to bind into such a root, place by source."""
        return {place: source for source, place in _moved(self.prefixes).items()}

    def places(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Where such a root has these paths, of which some may lie in `prefixes`."""
        moved = _moved(self.prefixes)
        homes = ((path, next((home for home in moved if path.startswith(f"{home}/")), "")) for path in paths)
        return tuple(moved.get(home, "") + path.removeprefix(home) for path, home in homes)

    def _landmarks(self) -> tuple[Path, ...]:
        """Files by which the rights on all of it are told: a whole library is too much to look at."""
        return (
            Path(self.path),
            *(path for prefix in self.prefixes for path in Path(prefix).glob("lib/python3*/os.py")),
        )


def own() -> Interpreter:
    path = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return Interpreter(path, _outside_usr(sys.base_prefix, sys.base_exec_prefix))


def at(path: str) -> Interpreter:
    """The interpreter at this path, asked for its whereabouts. Starts it: not for the event loop."""
    command = [path, "-I", "-c", _QUESTION]
    try:
        done = subprocess.run(command, env={}, capture_output=True, timeout=_ANSWER_TIMEOUT_S, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise IsolationError(f"the interpreter {path} for contexts does not run: {error}") from error
    return Interpreter(os.path.realpath(path), _outside_usr(*done.stdout.decode().split("\n")[:2]))


def choose(*, own_root: bool, other_uid: bool) -> Interpreter:
    """Our own; but where contexts have another uid, one that they can read, and reach if they have no own root."""
    ours = own()
    if not other_uid or (ours.is_readable_by_all() if own_root else ours.is_usable_by_all()):
        return ours
    if Path(_SYSTEM).exists():
        return at(_SYSTEM)
    raise IsolationError(
        f"contexts under their own uid cannot read {ours.path} and its library: install python below /usr, or open "
        "it and the folders above it to others (chmod o+rx)"
    )


def _outside_usr(*prefixes: str) -> tuple[str, ...]:
    real = {os.path.realpath(prefix) for prefix in prefixes}
    return tuple(sorted(prefix for prefix in real if not f"{prefix}/".startswith("/usr/")))


def _moved(prefixes: tuple[str, ...]) -> dict[str, str]:
    """The place of each prefix in a root of its own."""
    return {
        prefix: f"{ROOT}/python/{number}" if f"{prefix}/".startswith(tuple(f"{top}/" for top in _COVERED)) else prefix
        for number, prefix in enumerate(prefixes)
    }

"""The python that contexts are forked from: where it is, what must be readable for it, and who can reach it.

By default the daemon's own, outside any virtual environment: tenants do not see the daemon's packages.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.errors import IsolationError

_SYSTEM: Final = "/usr/bin/python3"
_QUESTION: Final = "import sys; print(sys.base_prefix, sys.base_exec_prefix, sep='\\n')"
_ANSWER_TIMEOUT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Interpreter:
    path: str
    prefixes: tuple[str, ...]  # where its library is, if not below /usr

    def reachable_by_all(self) -> bool:
        """Whether any uid can get to it; one that lives in somebody's home often cannot be."""
        places = [Path(self.path), *map(Path, self.prefixes)]
        return all(parent.stat().st_mode & 0o001 for place in places for parent in place.parents)


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


def choose(*, own_root: bool) -> Interpreter:
    """Our own; but where contexts see the machine's files under their own uid, one that they can reach."""
    ours = own()
    if own_root or ours.reachable_by_all():
        return ours
    if Path(_SYSTEM).exists():
        return at(_SYSTEM)
    raise IsolationError(
        f"contexts under their own uid cannot reach {ours.path}: install python below /usr, open the "
        "directories above it for others (chmod o+x), or install bubblewrap"
    )


def _outside_usr(*prefixes: str) -> tuple[str, ...]:
    real = {os.path.realpath(prefix) for prefix in prefixes}
    return tuple(sorted(prefix for prefix in real if not f"{prefix}/".startswith("/usr/")))

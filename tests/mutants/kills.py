"""Kills that are remembered, so that a night's run can be broken off and taken up again.

A kill counts as long as the row, the file that it changes and the tests that it names are what they were. When one of
them has changed, the test that killed the mutant last time is tried first. Other code that has changed meanwhile is
not looked at: `--anew` forgets everything.
"""

import hashlib
import json
import shlex
import threading
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import ROOT, Mutant


class Kill(NamedTuple):
    state: str
    """A digest of all that the kill depends on."""
    test: str


class Kills:
    """Ensures: what `add` has returned from is still known after the process was killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        rows = json.loads(path.read_text()) if path.exists() else {}
        self._kills = {name: Kill(*row) for name, row in rows.items()}

    def holds(self, mutant: Mutant, root: Path = ROOT) -> bool:
        """Whether it was killed, and nothing has changed since."""
        kill = self._kills.get(_name(mutant))
        return kill is not None and kill.state == _state(mutant, root)

    def last_test(self, mutant: Mutant) -> str:
        """The test that killed it last time; empty when it is not known."""
        kill = self._kills.get(_name(mutant))
        return kill.test if kill else ""

    def add(self, mutant: Mutant, test: str, root: Path) -> None:
        """`root` is the tree in which it was killed: the original may have changed meanwhile."""
        with self._lock:
            self._kills[_name(mutant)] = Kill(_state(mutant, root), test)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self._kills, indent=0))
            new.replace(self._path)


def _state(mutant: Mutant, root: Path) -> str:
    digest = hashlib.sha256(repr(mutant).encode())
    named = [argument.partition("::")[0] for argument in shlex.split(mutant.tests) if "/" in argument]
    for path in (root / name for name in (mutant.file, *named)):
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _name(mutant: Mutant) -> str:
    return f"{mutant.file}: {mutant.name}"

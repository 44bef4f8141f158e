"""One bug by hand: where it goes, what it replaces, and the tests that should see it."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    name: str
    """What the code does wrong with it, as a sentence."""
    file: str
    old: str
    """Text that is in the file exactly once."""
    new: str
    tests: str
    """Arguments of pytest, the nearest tests first."""
    equivalent: str = ""
    """Why nobody could tell the difference. Such a mutant is not run."""

    def problem(self, root: Path = ROOT) -> str:
        """Why it cannot be put into the code as it is now; empty when it can."""
        path = root / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        found = path.read_text().count(self.old)
        if found != 1:
            return f"its pattern is in {self.file} {found} times, and must be there once"
        missing = [
            test for test in shlex.split(self.tests) if "/" in test and not (root / test.partition("::")[0]).exists()
        ]
        return f"there is no {missing[0]}" if missing else ""

    def put_into(self, root: Path) -> str:
        """Change the copy; returns what the file was."""
        path = root / self.file
        sound = path.read_text()
        path.write_text(sound.replace(self.old, self.new))
        return sound


def in_file(file: str, tests: str) -> Callable[..., Mutant]:
    """For the rows of one file: `row(name, old, new)`, with other tests or a reason of equivalence if there is one."""

    def row(name: str, old: str, new: str, *, tests: str = tests, equivalent: str = "") -> Mutant:
        return Mutant(name, file, old, new, tests, equivalent)

    return row

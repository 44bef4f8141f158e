"""The list of mutants fits the code: each has its pattern in its file, once, and tests that exist."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.kills import Kills
from tests.mutants.mutant import Mutant
from tests.mutants.tables import AREAS

EVERY: list[Mutant] = [mutant for mutants in AREAS.values() for mutant in mutants]


def test_every_mutant_can_be_put_into_the_code() -> None:
    """One that does not fit any more has its row in tests/mutants/tables: change the pattern with the code."""
    problems = [f"{mutant.name}: {problem}" for mutant in EVERY if (problem := mutant.problem())]
    assert problems == []


def test_no_two_mutants_of_a_file_have_one_name() -> None:
    names = Counter((mutant.file, mutant.name) for mutant in EVERY)
    assert [name for name, count in names.items() if count > 1] == []


MUTANT = Mutant("it is wrong", "code.py", "right", "wrong", "tests/test_code.py::test_it tests/more -k fast")
FILES = {"code.py": "right", "tests/test_code.py": "a", "tests/more/test_more.py": "b", "other.py": "c"}


@pytest.mark.parametrize(
    ("changed", "is_known"),
    [("code.py", False), ("tests/test_code.py", False), ("tests/more/test_more.py", False), ("other.py", True)],
)
def test_a_kill_is_remembered_until_its_file_or_tests_change(tmp_path: Path, changed: str, is_known: bool) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    Kills(tmp_path / "kills.json").add(MUTANT, "tests/test_code.py::test_it", tmp_path)
    again = Kills(tmp_path / "kills.json")
    assert again.holds(MUTANT, tmp_path)
    assert not again.holds(MUTANT._replace(new="other"), tmp_path)
    (tmp_path / changed).write_text("changed")
    assert again.holds(MUTANT, tmp_path) == is_known
    assert again.last_test(MUTANT) == "tests/test_code.py::test_it"

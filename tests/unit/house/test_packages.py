"""The `__init__` of each package says what each of its files and rooms is for."""

import ast
import re
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
ROOMS: Final = (
    *("functory", "handlers", "journal", "runner", "scheduler", "store", "vocabulary", "bench"),
    "tests/support",
)
PACKAGES: Final = sorted(
    path.parent for path in chain.from_iterable((ROOT / room).rglob("__init__.py") for room in ROOMS)
)


def unnamed(package: Path) -> list[str]:
    """Files and rooms of a package that its docstring does not name."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    files = [path.name for path in package.glob("*.py") if not path.name.startswith("__")]
    rooms = [f"{path.parent.name}/" for path in package.glob("*/__init__.py")]
    return sorted(name for name in files + rooms if not re.search(rf"(?<!\w){re.escape(name)}", text))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(ROOT).as_posix())
def test_every_file_is_named(package: Path) -> None:
    assert unnamed(package) == []


def test_a_file_that_is_not_named_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""a.py does things, c/ and new_f.py too."""\n')
    for name in ("a.py", "b.py", "f.py", "new_f.py", "c/__init__.py", "d/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert unnamed(tmp_path) == ["b.py", "d/", "f.py"]

"""The `__init__` of each room of the application says what each of its files is for."""

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = sorted(path.parent for path in (ROOT / "functory").rglob("__init__.py"))


def unnamed(package: Path) -> list[str]:
    """Files and rooms of a package that its docstring does not name."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    files = [path.name for path in package.glob("*.py") if not path.name.startswith("__")]
    rooms = [f"{path.parent.name}/" for path in package.glob("*/__init__.py")]
    return sorted(name for name in files + rooms if name not in text)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(ROOT).as_posix())
def test_every_file_is_named(package: Path) -> None:
    assert unnamed(package) == []


def test_a_file_that_is_not_named_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""a.py does things, c/ too."""\n')
    for name in ("a.py", "b.py", "c/__init__.py", "d/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert unnamed(tmp_path) == ["b.py", "d/"]

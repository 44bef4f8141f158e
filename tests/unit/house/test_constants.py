"""Constants of modules are `Final`, so that the type checker keeps them.

Not those of programs that run inside a context: they do not import `typing`, to start fast. Nor names that are assigned
several at a time, which cannot be annotated.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("functory", "handlers", "journal", "runner", "scheduler", "store", "vocabulary")
PROGRAMS: Final = (ROOT / "handlers" / "bootstraps", ROOT / "runner" / "sandbox" / "attacks" / "attack.py")
_PARAMETERS: Final = frozenset({"TypeVar", "ParamSpec"})


def loose(text: str) -> Iterator[str]:
    """Constants of a module that are not `Final`."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            is_final = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in _PARAMETERS
        elif isinstance(node, ast.AnnAssign):
            names = [node.target.id] if isinstance(node.target, ast.Name) else []
            is_final = ast.unparse(node.annotation).partition("[")[0] == "Final"
        else:
            continue
        if not is_final:
            yield from (name for name in names if name.isupper())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_constant_is_final(package: str) -> None:
    files = (path for path in (ROOT / package).rglob("*.py") if not any(map(path.is_relative_to, PROGRAMS)))
    assert [f"{path.relative_to(ROOT)}: {name}" for path in files for name in loose(path.read_text())] == []


def test_a_constant_that_is_not_final_is_found() -> None:
    text = "A = 1\n_B_S: float = 2.0\nC: Final = 3\nD: Final[int] = 4\nT = TypeVar('T')\ne = 5\nF, G = 6, 7\n"
    assert list(loose(text)) == ["A", "_B_S"]

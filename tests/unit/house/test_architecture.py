"""docs/architecture.md names files and functions that exist, and a job's way has not grown."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "architecture.md"
MAX_STATIONS: Final = 18

_FILE: Final = re.compile(r"`([\w/]+\.py)`")
_NAME: Final = re.compile(r"`([\w/]+/[\w/]+\.py)`\s+`(\w+(?:\.\w+)?)`")
_STATION: Final = re.compile(r"^\| \d+ \|.*$", re.MULTILINE)


def missing(text: str, root: Path = ROOT) -> Iterator[str]:
    """Files that a text names and that are not there; names that are not in the file before them."""
    for file in _FILE.findall(text):
        if "/" in file and not (root / file).is_file():
            yield file
    for file, name in _NAME.findall(text):
        if (root / file).is_file() and name not in defined(ast.parse((root / file).read_text())):
            yield f"{file} {name}"


def defined(module: ast.Module) -> set[str]:
    """Functions, classes and methods of a module, methods as `Class.method`."""
    found: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (it for it in node.body if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


def test_every_name_is_real() -> None:
    assert list(missing(PAGE.read_text())) == []


def test_the_way_of_a_job_is_short_and_each_station_has_its_place() -> None:
    stations = _STATION.findall(PAGE.read_text())
    assert 10 <= len(stations) <= MAX_STATIONS
    for station in stations:
        assert _NAME.search(station), station


def test_a_missing_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text("class C:\n    async def d(self): ...\n\ndef e(): ...\n")
    text = "`a/b.py` `C.d` `a/b.py` `e` `a/b.py` `C` `a/b.py` `C.x` `a/b.py` `f` `a/z.py` `e` `b.py`"
    assert list(missing(text, tmp_path)) == ["a/z.py", "a/b.py C.x", "a/b.py f"]

"""docs/architecture.md names files and functions that exist, all rooms and loops, and a job's way has not grown."""

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
_ROW: Final = re.compile(r"^\| `?([\w ]+?)/?`? \|", re.MULTILINE)
_LOOP: Final = re.compile(r'_start_loop\("([\w ]+)"')
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


def rows(text: str, header: str) -> list[str]:
    """The first column of the table with this first column's name, without quotes and slashes."""
    table = text.split(f"\n| {header} | ", 1)[1].split("\n\n", 1)[0]
    return _ROW.findall(table)


def rooms(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/__init__.py"))


def test_every_room_has_its_row() -> None:
    described = rows(PAGE.read_text(), "room")
    assert sorted(described) == sorted([*rooms(ROOT / "functory"), "at the root"])


def test_every_loop_has_its_row() -> None:
    started = _LOOP.findall((ROOT / "functory" / "daemon" / "daemon.py").read_text())
    assert sorted(rows(PAGE.read_text(), "loop")) == sorted(started)


def test_a_row_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "__init__.py").touch()
    text = "\n| room | owns |\n|---|---|\n| `a/` | `b/` |\n| at the root | c |\n\n| `d/` | e |\n"
    assert rows(text, "room") == ["a", "at the root"]
    assert rooms(tmp_path) == ["a"]


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

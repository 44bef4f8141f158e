"""No test module imports another: what two of them need is in tests/support, or beside them in a file without tests."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[2]


def imported_tests(source: str) -> Iterator[str]:
    """The test modules that a text imports, or of which it imports something."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
        else:
            continue
        ours = (name for name in names if name.startswith(("tests.", ".")))
        yield from (f"line {node.lineno}: {name}" for name in ours if ".test_" in name)


def test_an_import_is_found() -> None:
    assert list(imported_tests("from tests.web.test_add import put")) == ["line 1: tests.web.test_add.put"]
    assert list(imported_tests("from tests.web import test_add")) == ["line 1: tests.web.test_add"]
    assert list(imported_tests("import tests.web.test_add as x")) == ["line 1: tests.web.test_add"]
    assert list(imported_tests("def f():\n    from .test_add import put")) == ["line 2: .test_add.put"]
    assert list(imported_tests("from aiohttp.test_utils import TestServer\nfrom tests.support.web import Site")) == []


def test_no_test_module_is_imported() -> None:
    found = {
        str(path.relative_to(TESTS)): lines
        for path in sorted(TESTS.rglob("*.py"))
        if (lines := list(imported_tests(path.read_text())))
    }
    assert found == {}

"""One way inward: the web parses, calls an operation and renders. It never reaches past operations."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]
_PARTS: Final = frozenset({"store", "journal", "intake", "verified_keys", "admission", "accepted"})
"""Of `Service`: for operations only."""


def reaches(source: str) -> Iterator[str]:
    """Where a text reaches for a part of the daemon behind an operation's back."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in _PARTS:
            yield f"line {node.lineno}: .{node.attr}"
        if isinstance(node, ast.ImportFrom) and any(name.name in {"Store", "Journal"} for name in node.names):
            yield f"line {node.lineno}: import from {node.module}"


def test_a_reach_is_found() -> None:
    assert list(reaches("await call.service.store.get_job()")) == ["line 1: .store"]
    assert list(reaches("from store.base import Job, Store")) == ["line 1: import from store.base"]
    assert list(reaches("from store.base import Job\nawait get_job(call.service)")) == []


def test_the_web_reaches_nothing_but_operations() -> None:
    found = {
        str(path.relative_to(_ROOT)): lines
        for room in ("web", "bedrock")
        for path in sorted((_ROOT / "functory" / room).rglob("*.py"))
        if (lines := list(reaches(path.read_text())))
    }
    assert found == {}

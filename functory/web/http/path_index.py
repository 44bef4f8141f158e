"""Which route a path belongs to, by its parts: aiohttp's router tries one route after the other.

It knows plain paths only. What it does not find goes to aiohttp's router, which decides: a path with percent signs,
an unknown one, all below /ui (no tenant has that name). Both find the same route for a path, as
tests/web/test_path_index.py says.
"""

import re
from typing import Final, Generic, TypeVar

_PLAIN: Final = re.compile(r"(?!/ui/)(?:/(?!\.)[A-Za-z0-9_.:-]+)+", re.ASCII)
_T = TypeVar("_T")


class _Node(Generic[_T]):
    """The paths that begin alike."""

    __slots__ = ("anything", "ends", "fixed")

    def __init__(self) -> None:
        self.fixed: dict[str, _Node[_T]] = {}
        self.anything: _Node[_T] | None = None
        self.ends: dict[str, tuple[_T, tuple[str, ...]]] = {}
        """By method: what is there, and the names of the parts that may be anything."""


class PathIndex(Generic[_T]):
    def __init__(self) -> None:
        self._root = _Node[_T]()

    def add(self, method: str, path: str, target: _T) -> None:
        """A path as aiohttp has it: `/{tenant}/job/{id}`. A fixed part goes before one that may be anything."""
        node = self._root
        names: list[str] = []
        for part in path.split("/")[1:]:
            if part.startswith("{"):
                names.append(part[1:-1])
                node.anything = node.anything or _Node()
                node = node.anything
            else:
                node = node.fixed.setdefault(part, _Node())
        node.ends.setdefault(method, (target, tuple(names)))

    def find(self, method: str, path: str) -> tuple[_T, dict[str, str]] | None:
        """What is at the path, and the parts that its route names. None: ask the router."""
        if not _PLAIN.fullmatch(path):
            return None
        values: list[str] = []
        end = _find(self._root, method, path.split("/"), 1, values)
        return None if end is None else (end[0], dict(zip(end[1], values, strict=True)))


def _find(
    node: _Node[_T], method: str, parts: list[str], at: int, values: list[str]
) -> tuple[_T, tuple[str, ...]] | None:
    """values: the parts that were not fixed, so far."""
    if at == len(parts):
        return node.ends.get(method)
    fixed = node.fixed.get(parts[at])
    if fixed is not None and (end := _find(fixed, method, parts, at + 1, values)) is not None:
        return end
    if node.anything is None:
        return None
    values.append(parts[at])
    end = _find(node.anything, method, parts, at + 1, values)
    if end is None:
        values.pop()
    return end

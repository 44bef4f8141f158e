"""Texts ("forms") that begin alike, as a tree: which of them a text has at a place is found without trying each.

A node is where forms part, or where one ends. On the way to it only the bytes are compared that they have in common.

Ensures: a look takes one step per node on the way, and more for many bytes (Budget).
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

STEPS_PER_BYTE: Final = 1
_FREE_STEPS: Final = 1024
_MOST_STEPS: Final = 2_000_000
"""Of one text, however long it is: others wait for it, and some of these steps are half a microsecond."""
_STEP_BYTES: Final = 512
"""A comparison of more bytes counts as several steps."""


class TooCostly(Exception):
    """The forms and the text are made so that the search would take too long."""


class Budget:
    """The steps that may be taken to search one text, however many parts of it are searched."""

    def __init__(self, size_bytes: int, most_steps: int | None = None) -> None:
        """most_steps: whatever the size; then looks are bounded by it, too."""
        self._counts_looks = most_steps is not None
        by_size = min(_FREE_STEPS + STEPS_PER_BYTE * size_bytes, _MOST_STEPS)
        self._left = self._most = by_size if most_steps is None else most_steps

    def take(self, steps: int) -> None:
        """Raises TooCostly."""
        self._left -= steps
        if self._left < 0:
            raise TooCostly

    def look(self, places: int) -> None:
        """So many places will be looked at, each of which takes as long as a step. As a rule they are bounded in
        another way. Raises TooCostly."""
        if self._counts_looks:
            self.take(places)
        else:
            self._most += places

    def taken(self) -> int:
        """Steps and looks so far: none for a plain text."""
        return self._most - max(self._left, 0)


class FormTree(NamedTuple):
    """A node, with all that follows. `edge` are the bytes from the node before it, from `begin` to `end` of a form.
    `cost` are the steps that it takes to compare them."""

    cost: int
    begin: int
    end: int
    edge: bytes
    is_form: bool
    following: "dict[int, FormTree]"

    def longest_at(self, data: bytes, start: int, budget: Budget) -> int:
        """The size of the longest form that is there; 0 if none is. Raises TooCostly."""
        found = 0
        node: FormTree | None = self
        while node is not None:
            cost, begin, end, edge, is_form, following = node
            budget.take(cost)
            if not data.startswith(edge, start + begin):
                break
            if is_form:
                found = end
            node = following.get(data[start + end]) if start + end < len(data) else None
        return found

    def is_begun_at(self, data: bytes, start: int, budget: Budget) -> bool:
        """Whether the rest of the data is the beginning of a form, and not all of it. Raises TooCostly."""
        node: FormTree | None = self
        while node is not None:
            cost, begin, end, edge, _, following = node
            budget.take(cost)
            if start + end > len(data):
                return edge.startswith(data[start + begin :])
            if not data.startswith(edge, start + begin):
                return False
            if start + end == len(data):
                return bool(following)
            node = following.get(data[start + end])
        return False


def tree_of(forms: Sequence[bytes]) -> FormTree:
    """The forms are in order, none of them twice, and the first byte of all is the same."""
    roots: dict[int, FormTree] = {}
    todo: list[tuple[dict[int, FormTree], Sequence[bytes], int]] = [(roots, forms, 0)]
    while todo:  # no recursion: there may be a thousand nodes in a row
        place, rest, begin = todo.pop()
        first = rest[0]
        end = _common_bytes(first, rest[-1], begin)
        cost = 1 + (end - begin) // _STEP_BYTES
        node = place[first[begin]] = FormTree(cost, begin, end, first[begin:end], len(first) == end, {})
        longer = rest[1:] if node.is_form else rest
        todo += [(node.following, list(part), end) for _, part in groupby(longer, itemgetter(end))]
    return roots.popitem()[1]


def _common_bytes(one: bytes, other: bytes, least: int) -> int:
    """How many bytes at the beginning of both are the same; the first `least` are."""
    most = min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least

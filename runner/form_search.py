"""Finds thousands of fixed texts ("forms") in a text at once.

A tenant chooses both the forms and the text. The time must not grow with the number of forms, because texts are
searched on the event loop. So forms are looked up by their first bytes and never tried one after the other. Those
that begin alike are a tree (form_tree.py).

Ensures: a search costs at most a fixed number of steps per byte of the text, whatever the forms are. A search that
would cost more raises TooCostly.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from runner.form_tree import Budget, FormTree, tree_of

KEY_BYTES: Final = 6
"""No form is shorter."""
_STEPS_PER_START: Final = 3
"""For a place where a form may start, beside the comparisons: such places are dear, and a text can be full of them."""
_FEW: Final = 64
"""Of so few beginnings each is searched with `in`: that is faster than the index, and bounded, as they are short."""
_FREE_LOOKS: Final = 256
"""Less is not worth counting."""
_BEGINNING: Final = 32
_WORD: Final = 4
_PART_BYTES: Final = 64 * 1024
"""Of the text, looked at together: whole words."""


class Span(NamedTuple):
    start: int
    end: int


class FormSearch:
    def __init__(self, forms: Iterable[bytes]) -> None:
        ordered = sorted(set(forms))
        self.longest = max(map(len, ordered), default=0)
        self.size_bytes = 2 * sum(map(len, ordered)) + 1000 * len(ordered)
        """About what it takes of memory."""
        self._by_head = _trees(ordered)
        self._by_tail = _trees(sorted(form[::-1] for form in ordered))
        """Of the forms from their last byte to their first."""
        words = {key[at : at + _WORD] for key in self._by_head for at in (0, 1)}
        self._words = frozenset(int.from_bytes(word, sys.byteorder) for word in words)
        beginnings = {form[:_BEGINNING] for form in ordered}
        self._few = tuple(beginnings) if len(beginnings) <= _FEW else None

    def spans(self, data: bytes, budget: Budget, *, cut_begin: bool = False, cut_end: bool = False) -> list[Span]:
        """Where forms are, in order and without overlaps: those that overlap are one. With `cut_begin` also the end
        of a form with which the data begins, with `cut_end` the beginning of a form with which it ends, if at least
        KEY_BYTES of it are there. Raises TooCostly."""
        if len(data) < KEY_BYTES or not self._by_head:
            return []
        found = list(self._whole(data, budget))
        if cut_begin and (size := _begun_at_end(self._by_tail, data[: self.longest - 1][::-1], budget)):
            found.append(Span(0, size))
        if cut_end and (size := _begun_at_end(self._by_head, data[-self.longest + 1 :], budget)):
            found.append(Span(len(data) - size, len(data)))
        return merged(found)

    def _whole(self, data: bytes, budget: Budget) -> Iterator[Span]:
        for start in self._candidates(data, budget):
            if size := self._by_head[data[start : start + KEY_BYTES]].longest_at(data, start, budget):
                yield Span(start, start + size)

    def _candidates(self, data: bytes, budget: Budget) -> Iterator[int]:
        """Where a form may start, as its first bytes are there. In order, and a part of the text after the other: other
        threads get the interpreter in between, and a text that is full of such places takes little memory."""
        if self._few is not None and not any(beginning in data for beginning in self._few):
            return
        view = memoryview(data)
        for begin in range(0, len(data), _PART_BYTES):
            yield from sorted(self._in_part(data, view, begin, budget))

    def _in_part(self, data: bytes, view: memoryview, begin: int, budget: Budget) -> Iterator[int]:
        """Looked at are whole words at even places: one of them is in the first bytes of any form, wherever it starts.
        The first of a part may be that of a form which starts a byte before it."""
        for offset in (0, _WORD // 2):
            first = begin + offset
            size = min(len(data) - first, _PART_BYTES) // _WORD * _WORD
            words = view[first : first + size].cast("I")
            hits = bytes(map(self._words.__contains__, words))
            at = hits.find(1)
            while at >= 0:
                budget.take(1)
                place = first + at * _WORD
                for start in (place - 1, place):
                    if start >= 0 and data[start : start + KEY_BYTES] in self._by_head:
                        budget.take(_STEPS_PER_START)
                        yield start
                at = hits.find(1, at + 1)


def _trees(ordered: Iterable[bytes]) -> dict[bytes, FormTree]:
    alike = defaultdict[bytes, list[bytes]](list)
    for form in ordered:
        alike[form[:KEY_BYTES]].append(form)
    return {head: tree_of(forms) for head, forms in alike.items()}


def _begun_at_end(trees: Mapping[bytes, FormTree], data: bytes, budget: Budget) -> int:
    """With how many bytes of a form, the most that there are, the data ends."""
    if len(data) > _FREE_LOOKS:
        budget.look(len(data))
    for start in range(len(data) - KEY_BYTES + 1):
        tree = trees.get(data[start : start + KEY_BYTES])
        if tree is not None and tree.is_begun_at(data, start, budget):
            return len(data) - start
    return 0


def merged(found: list[Span]) -> list[Span]:
    """In order; those that overlap are one."""
    spans = list[Span]()
    for span in sorted(found):
        if spans and span.start < spans[-1].end:
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, span.end))
        else:
            spans.append(span)
    return spans

"""Finds thousands of fixed texts ("forms") in a text at once.

A tenant chooses both the forms and the text. The time must not grow with the number of forms, because texts are
searched on the event loop. So forms are looked up by their first bytes and never tried one after the other. Forms
that begin alike share a place in that index, and are compared there.

Ensures: a search costs at most a fixed number of steps per byte of the text, whatever the forms are. A search that
would cost more raises TooCostly.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

KEY_BYTES: Final = 6
"""No form is shorter."""
STEPS_PER_BYTE: Final = 1
_FREE_STEPS: Final = 1024
_STEPS_PER_START: Final = 3
"""For a place where a form may start, beside the comparisons: such places are dear, and a text can be full of them."""
_STEP_BYTES: Final = 512
"""A comparison of more bytes counts as several steps."""
_FEW: Final = 64
"""Of so few beginnings each is searched with `in`: that is faster than the index, and bounded, as they are short."""
_BEGINNING: Final = 32
_WORD: Final = 4


class TooCostly(Exception):
    """The forms and the text are made so that the search would take too long."""


class Span(NamedTuple):
    start: int
    end: int


class FormSearch:
    def __init__(self, forms: Iterable[bytes]) -> None:
        ordered = sorted(set(forms), key=len, reverse=True)
        self.longest = len(ordered[0]) if ordered else 0
        self.size_bytes = sum(map(len, ordered)) + 500 * len(ordered)
        """About what it takes of memory."""
        heads, tails = defaultdict[bytes, list[bytes]](list), defaultdict[bytes, list[bytes]](list)
        for form in ordered:
            heads[form[:KEY_BYTES]].append(form)
            tails[form[-KEY_BYTES:]].append(form)
        self._by_head, self._by_tail = dict(heads), dict(tails)  # the longest first
        words = {key[at : at + _WORD] for key in self._by_head for at in (0, 1)}
        self._words = frozenset(int.from_bytes(word, sys.byteorder) for word in words)
        beginnings = {form[:_BEGINNING] for form in ordered}
        self._few = tuple(beginnings) if len(beginnings) <= _FEW else None

    def spans(self, data: bytes, *, cut_begin: bool = False, cut_end: bool = False) -> list[Span]:
        """Where forms are, in order and without overlaps: those that overlap are one. With `cut_begin` also the end
        of a form with which the data begins, with `cut_end` the beginning of a form with which it ends, if at least
        KEY_BYTES of it are there. Raises TooCostly."""
        if len(data) < KEY_BYTES or not self._by_head:
            return []
        budget = _Budget(_FREE_STEPS + STEPS_PER_BYTE * len(data))
        found = list(self._begun(data, budget)) if cut_begin else []
        found += self._whole(data, budget)
        if cut_end:
            found += self._ended(data, budget)
        return merged(found)

    def _whole(self, data: bytes, budget: "_Budget") -> Iterator[Span]:
        for start in self._candidates(data, budget):
            for form in self._by_head[data[start : start + KEY_BYTES]]:
                budget.spend(len(form))
                if data.startswith(form, start):
                    yield Span(start, start + len(form))
                    break

    def _candidates(self, data: bytes, budget: "_Budget") -> list[int]:
        """Where a form may start, as its first bytes are there. Looked at are whole words at even places: one of them
        is in the first bytes of any form, wherever it starts."""
        if self._few is not None and not any(beginning in data for beginning in self._few):
            return []
        starts = list[int]()
        for offset in (0, _WORD // 2):
            size = (len(data) - offset) // _WORD * _WORD
            words = memoryview(data)[offset : offset + size].cast("I")
            hits = bytes(map(self._words.__contains__, words))
            at = hits.find(1)
            while at >= 0:
                budget.take(1)
                place = offset + at * _WORD
                for start in (place - 1, place):
                    if start >= 0 and data[start : start + KEY_BYTES] in self._by_head:
                        budget.take(_STEPS_PER_START)
                        starts.append(start)
                at = hits.find(1, at + 1)
        return sorted(starts)

    def _begun(self, data: bytes, budget: "_Budget") -> Iterator[Span]:
        for end in range(min(len(data), self.longest - 1), KEY_BYTES - 1, -1):
            for form in self._by_tail.get(data[end - KEY_BYTES : end], ()):
                budget.spend(end)
                if len(form) > end and form.endswith(data[:end]):
                    yield Span(0, end)
                    return

    def _ended(self, data: bytes, budget: "_Budget") -> Iterator[Span]:
        size = len(data)
        for start in range(max(size - self.longest + 1, 0), size - KEY_BYTES + 1):
            for form in self._by_head.get(data[start : start + KEY_BYTES], ()):
                budget.spend(size - start)
                if len(form) > size - start and form.startswith(data[start:]):
                    yield Span(start, size)
                    return


class _Budget:
    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, size_bytes: int) -> None:
        self.take(1 + size_bytes // _STEP_BYTES)

    def take(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooCostly


def merged(found: list[Span]) -> list[Span]:
    """In order; those that overlap are one."""
    spans = list[Span]()
    for span in sorted(found):
        if spans and span.start < spans[-1].end:
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, span.end))
        else:
            spans.append(span)
    return spans

"""What changed between two texts, line by line, in time that hardly grows faster than their length.

The texts are tenants', and the event loop waits for the result: an exact difference (as of `difflib`) can be made to
take half a minute with twenty kilobytes. So lines are matched as in a patience diff. What both texts begin and end with
is the same. Lines that occur once in each text, and in the same order, are the same lines. Between two such lines the
same is done again, to a fixed depth. What is left was replaced.

Ensures: the work is at most `_DEPTH` times that of sorting the lines. Putting the result together gives both texts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_DEPTH: Final = 4


class Block(NamedTuple):
    """Lines that are the same in both: where they begin in each, and how many they are."""

    old: int
    new: int
    size: int


class _Range(NamedTuple):
    """A part of both texts, from a first line up to, not including, a last one."""

    old: int
    old_end: int
    new: int
    new_end: int


def unified(old: Sequence[str], new: Sequence[str], context: int = 4) -> Iterator[str]:
    """The changed lines with some around them: ` same`, `-removed`, `+added`, and `@@ … @@` before each group."""
    for group in _groups(same_blocks(old, new), len(old), len(new), context):
        first, last = group[0], group[-1]
        removed, added = last.old_end - first.old, last.new_end - first.new
        yield f"@@ -{first.old + 1},{removed} +{first.new + 1},{added} @@"
        for number, part in enumerate(group):
            if number % 2 == 0:
                yield from (f" {line}" for line in old[part.old : part.old_end])
            else:
                yield from (f"-{line}" for line in old[part.old : part.old_end])
                yield from (f"+{line}" for line in new[part.new : part.new_end])


def same_blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """In their order, and never overlapping."""
    found: list[Block] = []
    to_do = [(_Range(0, len(old), 0, len(new)), _DEPTH)]
    while to_do:
        part, depth = to_do.pop()
        part = _without_ends(old, new, part, found)
        if depth and part.old < part.old_end and part.new < part.new_end:
            to_do += [(between, depth - 1) for between in _between_anchors(old, new, part)]
    return _joined(sorted(found))


def _without_ends(old: Sequence[str], new: Sequence[str], part: _Range, found: list[Block]) -> _Range:
    """What lies between the lines with which both begin, and those with which both end."""
    i, i_end, j, j_end = part
    while i < i_end and j < j_end and old[i] == new[j]:
        i, j = i + 1, j + 1
    while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    found += [Block(part.old, part.new, i - part.old), Block(i_end, j_end, part.old_end - i_end)]
    return _Range(i, i_end, j, j_end)


def _between_anchors(old: Sequence[str], new: Sequence[str], part: _Range) -> list[_Range]:
    """The parts that the anchors cut this one into, each beginning with its anchor; none without an anchor."""
    here, there = Counter(old[part.old : part.old_end]), Counter(new[part.new : part.new_end])
    places = {new[j]: j for j in range(part.new, part.new_end) if there[new[j]] == 1}
    both = [(i, places[old[i]]) for i in range(part.old, part.old_end) if here[old[i]] == 1 and old[i] in places]
    anchors = _longest_rise(both)
    if not anchors:
        return []
    starts = [(part.old, part.new), *anchors]
    ends = [*anchors, (part.old_end, part.new_end)]
    return [_Range(i, i_end, j, j_end) for (i, j), (i_end, j_end) in zip(starts, ends, strict=True)]


def _longest_rise(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of pairs in the order of their first number, the most whose second numbers rise, too."""
    smallest: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(smallest, j)
        before.append(at[length - 1] if length else -1)
        smallest[length : length + 1] = [j]
        at[length : length + 1] = [number]
    rise = []
    number = at[-1] if at else -1
    while number >= 0:
        rise.append(pairs[number])
        number = before[number]
    return rise[::-1]


def _joined(blocks: Sequence[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        if not block.size:
            continue
        last = joined[-1] if joined else None
        if last and (last.old + last.size, last.new + last.size) == (block.old, block.new):
            joined[-1] = last._replace(size=last.size + block.size)
        else:
            joined.append(block)
    return joined


def _groups(blocks: Sequence[Block], old_count: int, new_count: int, context: int) -> Iterator[list[_Range]]:
    """Changes that are near each other: same lines, changed ones, same ones, and so on, beginning and ending with same
    ones (of which there may be none)."""
    group: list[_Range] = []
    i = j = 0
    for old, new, count in [*blocks, Block(old_count, new_count, 0)]:
        if (i, j) != (old, new):
            if not group:
                known = min(context, i, j)
                group.append(_Range(i - known, i, j - known, j))
            group.append(_Range(i, old, j, new))
        i, j = old + count, new + count
        if group:
            if count > 2 * context or (i, j) == (old_count, new_count):
                shown = min(count, context)
                yield [*group, _Range(old, old + shown, new, new + shown)]
                group = []
            else:
                group.append(_Range(old, i, new, j))
    if group:
        yield group

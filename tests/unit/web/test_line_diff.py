"""A difference of lines: it holds both texts, it is short for what people do, and no text makes it slow."""

import time
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from functory.web.pages.line_diff import same_blocks, unified

LINES = st.lists(st.sampled_from("abcdefgh") | st.text(max_size=2), max_size=40)


@given(LINES, LINES)
def test_the_blocks_are_the_same_in_both_and_in_order(old: list[str], new: list[str]) -> None:
    i = j = 0
    for block in same_blocks(old, new):
        assert block.old >= i
        assert block.new >= j
        i, j = block.old + block.size, block.new + block.size
        assert old[block.old : i] == new[block.new : j]


@given(LINES, LINES)
def test_both_texts_can_be_read_from_it(old: list[str], new: list[str]) -> None:
    shown = [line for line in unified(old, new, context=1000) if not line.startswith("@@")]
    if old == new:
        assert shown == []
        return
    assert [line[1:] for line in shown if line[0] in " -"] == old
    assert [line[1:] for line in shown if line[0] in " +"] == new


def test_one_changed_line_is_shown_with_some_around_it() -> None:
    old = [f"line {number}" for number in range(100)]
    new = [*old[:50], "changed", *old[51:]]
    assert list(unified(old, new)) == [
        "@@ -47,9 +47,9 @@",
        *(f" line {number}" for number in range(46, 50)),
        "-line 50",
        "+changed",
        *(f" line {number}" for number in range(51, 55)),
    ]


def test_a_moved_and_an_added_part_among_repeated_lines() -> None:
    old = ["def a():", "    pass", "", "def b():", "    pass", ""]
    new = ["def a():", "    pass", "", "def c():", "    pass", "", "def b():", "    pass", ""]
    changed = [line for line in unified(old, new) if line[0] in "+-"]
    assert changed == ["+def c():", "+    pass", "+"]


def test_no_lines_make_it_slow() -> None:
    """In processor time, and against a sort of the same lines: `difflib` takes ten thousand times as long."""
    count = 4000
    repeated = [str(number % 100) for number in range(count)]
    texts = [
        repeated,
        Random(1).sample(repeated, count),
        [line for number, some in enumerate(repeated[: count // 2]) for line in (some, f"only {number}")],
        [str(number) for number in range(count)],
        [str(number) for number in reversed(range(count))],
        [str(number ^ 1) for number in range(count)],
        ["x"] * count,
    ]
    began_s = time.thread_time()
    for _ in range(10):
        sorted(Random(2).sample(texts[3], count))
    a_sort_s = (time.thread_time() - began_s) / 10
    for old in texts:
        for new in texts:
            began_s = time.thread_time()
            list(unified(old, new))
            assert time.thread_time() - began_s < 1000 * a_sort_s

"""The search for many forms at once finds what a search for each of them finds, and its cost is bounded."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner import form_search, form_tree
from runner.form_search import KEY_BYTES, FormSearch
from runner.form_tree import Budget, TooCostly

LETTERS = st.sampled_from(b"ab")
FORMS = st.lists(st.lists(LETTERS, min_size=KEY_BYTES, max_size=12).map(bytes), max_size=8)
FILLING = st.lists(st.sampled_from(b"ab. "), max_size=9).map(bytes)


def covered(forms: list[bytes], data: bytes, *, cut_begin: bool, cut_end: bool) -> set[int]:
    """The bytes that belong to a form, found one form after the other."""
    found = set[int]()
    for form in forms:
        for at in range(len(data)):
            if data.startswith(form, at):
                found.update(range(at, at + len(form)))
        for size in range(KEY_BYTES, min(len(form) - 1, len(data)) + 1):
            if cut_begin and data.startswith(form[-size:]):
                found.update(range(size))
            if cut_end and data.endswith(form[:size]):
                found.update(range(len(data) - size, len(data)))
    return found


@pytest.mark.parametrize("few", [0, 64])
@given(forms=FORMS, pieces=st.data(), cut_begin=st.booleans(), cut_end=st.booleans())
def test_all_that_a_simple_search_finds(
    few: int, forms: list[bytes], pieces: st.DataObject, cut_begin: bool, cut_end: bool
) -> None:
    parts = pieces.draw(st.lists(st.sampled_from(forms) | FILLING if forms else FILLING, max_size=6))
    data = b"".join(parts)
    data = data[pieces.draw(st.integers(0, 8)) : len(data) - pieces.draw(st.integers(0, 8))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form_search, "_FEW", few)
        patch.setattr(form_tree, "STEPS_PER_BYTE", 1000)
        spans = FormSearch(forms).spans(data, Budget(len(data)), cut_begin=cut_begin, cut_end=cut_end)
    assert {at for span in spans for at in range(span.start, span.end)} == covered(
        forms, data, cut_begin=cut_begin, cut_end=cut_end
    )
    assert all(one.end <= two.start for one, two in pairwise(spans))


@given(forms=FORMS, data=st.lists(LETTERS, max_size=60).map(bytes))
def test_what_costs_too_much_is_said(forms: list[bytes], data: bytes) -> None:
    assume(forms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form_tree, "_FREE_STEPS", 0)
        search = FormSearch(forms)
        try:
            spans = search.spans(data, Budget(len(data)))
        except TooCostly:
            return
    assert {at for span in spans for at in range(span.start, span.end)} == covered(
        forms, data, cut_begin=False, cut_end=False
    )


@pytest.mark.parametrize("alike", [False, True])
def test_the_steps_do_not_grow_with_the_number_of_forms(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(Budget, "take", _counting(Budget.take, steps))
    counts: list[int] = []
    data = b"aaaaaaa." * 500
    for number in (100, 10_000):
        forms = [b"aaaaaa%06d" % at if alike else b"%06dbbbbbb" % at for at in range(number)]
        steps.clear()
        search = FormSearch(forms)
        assert search.spans(data, Budget(len(data)), cut_begin=True, cut_end=True) == []
        counts.append(sum(steps))
    assert len(set(counts)) == 1


def _counting(take: Callable[[Budget, int], None], steps: list[int]) -> Callable[[Budget, int], None]:
    def counted(budget: Budget, number: int) -> None:
        steps.append(number)
        take(budget, number)

    return counted


@pytest.mark.parametrize("cut", [False, True])
def test_forms_that_are_parts_of_each_other_cost_a_step_each(cut: bool) -> None:
    """A thousand nodes in a row, at each place of the text."""
    search = FormSearch([b"a" * size for size in range(KEY_BYTES, 1500)])
    data = (b"" if cut else b".") + b"a" * 40 + b"." * 400
    assert [end - start for start, end in search.spans(data, Budget(1000), cut_begin=cut)] == [40]
    with pytest.raises(TooCostly):
        search.spans(b"a" * 3000, Budget(3000), cut_begin=cut)


def test_long_comparisons_count_as_several() -> None:
    word = b"some words here "
    search = FormSearch([word * 1000 + b"b"])
    with pytest.raises(TooCostly):
        search.spans(word * 1200, Budget(len(word) * 1200))


def test_a_text_that_is_one_form_after_the_other_is_given_up_early() -> None:
    looked_at: list[bytes] = []

    class Heads(dict[bytes, form_tree.FormTree]):
        def __contains__(self, head: object) -> bool:
            looked_at.append(b"")
            return super().__contains__(head)

    search = FormSearch([b"aaaaaa"])
    search._by_head = Heads(search._by_head)
    data = b"a" * 64_000
    with pytest.raises(TooCostly):
        search.spans(data, Budget(len(data)))
    assert len(looked_at) < len(data) / 3


def test_a_text_that_is_full_of_forms_is_searched_to_its_end() -> None:
    forms = [b"password", b"password%2F", b"password\\n", b"password=="]
    data = b"password: at 10.0.0.1 " * 3000
    assert len(FormSearch(forms).spans(data, Budget(len(data)))) == 3000

"""The search for many forms at once finds what a search for each of them finds, and its cost is bounded."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner import form_search
from runner.form_search import KEY_BYTES, STEPS_PER_BYTE, FormSearch, TooCostly

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
        patch.setattr(form_search, "STEPS_PER_BYTE", 1000)
        spans = FormSearch(forms).spans(data, cut_begin=cut_begin, cut_end=cut_end)
    assert {at for span in spans for at in range(span.start, span.end)} == covered(
        forms, data, cut_begin=cut_begin, cut_end=cut_end
    )
    assert all(one.end <= two.start for one, two in pairwise(spans))


@given(forms=FORMS, data=st.lists(LETTERS, max_size=60).map(bytes))
def test_what_costs_too_much_is_said(forms: list[bytes], data: bytes) -> None:
    assume(forms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form_search, "_FREE_STEPS", 0)
        search = FormSearch(forms)
        try:
            spans = search.spans(data)
        except TooCostly:
            return
    assert {at for span in spans for at in range(span.start, span.end)} == covered(
        forms, data, cut_begin=False, cut_end=False
    )


@pytest.mark.parametrize("alike", [False, True])
def test_the_steps_do_not_grow_with_the_number_of_forms(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(form_search._Budget, "spend", _counting(form_search._Budget.spend, steps))
    counts: list[int] = []
    data = b"aaaaaaa." * 500
    for number in (100, 10_000):
        forms = [b"aaaaaa%06d" % at if alike else b"%06dbbbbbb" % at for at in range(number)]
        steps.clear()
        search = FormSearch(forms)
        try:
            assert search.spans(data, cut_begin=True, cut_end=True) == []
        except TooCostly:
            assert alike
        counts.append(len(steps))
    assert max(counts) <= (STEPS_PER_BYTE * len(data) + 100 if alike else 0)


def _counting(spend: object, steps: list[int]) -> object:
    def counted(budget: form_search._Budget, size_bytes: int) -> None:
        steps.append(size_bytes)
        spend(budget, size_bytes)  # type: ignore[operator]

    return counted


def test_long_comparisons_count_as_several() -> None:
    search = FormSearch([b"a" * 16_000 + b"b"])
    with pytest.raises(TooCostly):
        search.spans(b"a" * 20_000)


def test_a_text_that_is_one_form_after_the_other_is_given_up_early() -> None:
    looked_at: list[bytes] = []

    class Heads(dict[bytes, list[bytes]]):
        def __contains__(self, head: object) -> bool:
            looked_at.append(b"")
            return super().__contains__(head)

    search = FormSearch([b"aaaaaa"])
    search._by_head = Heads(search._by_head)
    data = b"a" * 64_000
    with pytest.raises(TooCostly):
        search.spans(data)
    assert len(looked_at) < len(data) / 3


def test_a_text_that_is_full_of_forms_is_searched_to_its_end() -> None:
    forms = [b"password", b"password%2F", b"password\\n", b"password=="]
    data = b"password: at 10.0.0.1 " * 3000
    assert len(FormSearch(forms).spans(data)) == 3000

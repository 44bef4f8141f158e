"""The window of indexes against a plain model, over any order of starts, ends, saves and crashes."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler.errors import InvalidOptions, NotStarted
from scheduler.index_window import MAX_INDEX, IndexWindow, Span, WindowLimits

LIMITS = st.builds(WindowLimits, st.integers(1, 6), st.integers(1, 9))


class WindowMachine(RuleBasedStateMachine):
    """The model: the set of indexes that a worker has at this moment, and the set of those that are done."""

    @initialize(limits=LIMITS, processed=st.integers(0, 50))
    def make(self, limits: WindowLimits, processed: int) -> None:
        self.window = IndexWindow(processed, limits)
        self.base = self.saved = self.head = processed
        self.working: set[int] = set()
        self.done: set[int] = set()
        self.ever_done: set[int] = set()
        self.most_ahead = limits.max_search_ahead

    @rule(more=st.integers(0, 10))
    def new_jobs(self, more: int) -> None:
        self.head += more

    @rule(most=st.integers(0, 10))
    def look(self, most: int) -> None:
        """Start some of what may start: a source may answer only for the first ones."""
        for index in list(self.window.startable(self.head))[:most]:
            assert index not in self.working | self.done, "started twice"
            self.window.start(index)
            self.working.add(index)

    @rule()
    def refuse_out_of_order(self) -> None:
        for index in (self.window.started, self.window.started + 2):
            with pytest.raises(NotStarted):
                self.window.start(index)
        with pytest.raises(NotStarted):
            self.window.finish(self.window.started + 1)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.working:
            index = data.draw(st.sampled_from(sorted(self.working)))
            before = self.window.processed
            assert self.window.is_in_work(index)
            moved = self.window.finish(index)
            assert moved == (self.window.processed > before) == (index == before + 1)
            self.working.remove(index)
            self.done.add(index)
            self.ever_done.add(index)

    @rule(data=st.data())
    def report_again(self, data: st.DataObject) -> None:
        if self.done:
            before = self.seen()
            assert self.window.finish(data.draw(st.sampled_from(sorted(self.done)))) is False
            assert self.seen() == before

    @rule()
    def save(self) -> None:
        assert self.window.processed >= self.saved, "progress fell"
        self.saved = self.window.processed

    @rule()
    def crash(self) -> None:
        """Only what was saved is left. Workers of that time are gone with the process."""
        self.window = IndexWindow(self.saved, self.window.limits)
        self.working.clear()
        self.done = {index for index in self.ever_done if index <= self.saved}
        self.most_ahead = self.window.limits.max_search_ahead

    @rule(limits=LIMITS)
    def change_limits(self, limits: WindowLimits) -> None:
        self.window.limits = limits
        self.most_ahead = max(self.most_ahead, limits.max_search_ahead)

    def seen(self) -> tuple[int, int, int, list[Span]]:
        return self.window.processed, self.window.started, self.window.done_ahead, list(self.window.spans())

    @invariant()
    def is_the_model(self) -> None:
        expected = self.saved
        while expected + 1 in self.done:
            expected += 1
        assert self.window.processed == expected
        assert self.window.in_work == len(self.working)
        assert all(index in self.ever_done for index in range(self.base + 1, self.window.processed + 1)), "skipped"

    @invariant()
    def keeps_its_limits(self) -> None:
        limits, startable = self.window.limits, self.window.startable(self.head)
        assert self.window.done_ahead < self.most_ahead, "memory is bounded by max_search_ahead"
        assert self.window.started - self.window.processed <= self.most_ahead
        if startable:
            assert len(self.working) + len(startable) <= limits.max_processing
            assert startable[0] == self.window.started + 1
            assert startable[-1] <= min(self.head, self.window.processed + limits.max_search_ahead)
        elif self.window.started < self.head:
            is_full = len(self.working) >= limits.max_processing
            assert is_full or self.window.started >= self.window.processed + limits.max_search_ahead, (
                "waits for nothing"
            )

    @invariant()
    def spans_say_the_same(self) -> None:
        spans = list(self.window.spans())
        told = {index: span.is_done for span in spans for index in range(span.first, span.last + 1)}
        assert told == {
            index: index in self.done for index in range(self.window.processed + 1, self.window.started + 1)
        }
        assert all(one.is_done != other.is_done for one, other in pairwise(spans))

    def teardown(self) -> None:
        """From wherever it stands, finishing all work brings progress to the head: nothing is left out."""
        if not hasattr(self, "window"):
            return
        while indexes := [*sorted(self.working), *self.window.startable(self.head)]:
            for index in indexes:
                if index not in self.working:
                    self.window.start(index)
                self.window.finish(index)
            self.working.clear()
        assert self.window.processed == max(self.head, self.window.started)
        assert self.seen()[2:] == (0, [])


TestWindow = WindowMachine.TestCase
TestWindow.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


@given(st.permutations(range(1, 13)), st.integers(0, 12))
def test_a_crash_at_any_point_ends_where_no_crash_would(order: list[int], crash_after: int) -> None:
    """Whatever was saved before the crash, the end is the same, and nothing between is missing."""
    limits = WindowLimits(12, 12)
    window = IndexWindow(0, limits)
    for index in window.startable(12):
        window.start(index)
    for index in order[:crash_after]:
        window.finish(index)
    resumed = IndexWindow(window.processed, limits)
    again = list(resumed.startable(12))
    assert again == list(range(window.processed + 1, 13))
    for index in again:
        resumed.start(index)
    for index in [index for index in order if index in again]:
        resumed.finish(index)
    assert (resumed.processed, resumed.in_work, resumed.done_ahead) == (12, 0, 0)


def test_a_hanging_index_bounds_what_is_kept() -> None:
    window = IndexWindow(0, WindowLimits(max_processing=2, max_search_ahead=1000))
    started = 0
    while startable := window.startable(1_000_000):
        for index in startable:
            window.start(index)
            started += 1
            if index != 1:
                window.finish(index)
    assert (started, window.in_work, window.done_ahead, window.processed) == (1000, 1, 999, 0)
    assert list(window.spans()) == [Span(1, 1, is_done=False), Span(2, 1000, is_done=True)]
    assert window.finish(1)
    assert (window.processed, window.done_ahead) == (1000, 0)


@pytest.mark.parametrize(
    ("processed", "limits", "word"),
    [
        (-1, WindowLimits(1, 1), "processed"),
        (MAX_INDEX + 1, WindowLimits(1, 1), "processed"),
        (0, WindowLimits(0, 1), "max_processing"),
        (0, WindowLimits(1, 0), "max_search_ahead"),
    ],
)
def test_values_that_cannot_be_are_refused(processed: int, limits: WindowLimits, word: str) -> None:
    with pytest.raises(InvalidOptions, match=word):
        IndexWindow(processed, limits)

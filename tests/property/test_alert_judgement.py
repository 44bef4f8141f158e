"""Alert rules over any course of figures and clocks: told in turns, never flapping, never because a clock leapt."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from functory.alerts.judgement import (
    Figures,
    Moment,
    advance,
    holds,
    is_to_be_told,
    with_notice,
    without_notice,
)
from functory.alerts.standing import Notice, Standing, standing_from
from functory.alerts.terms import Terms, encode_terms, terms_from
from store.names import AHEAD_MS

T0 = 1_800_000_000_000
LATER_S = st.integers(0, 1000)

TERMS = st.builds(
    Terms,
    type=st.just("mail"),
    notify=st.just("tell"),
    when=st.just("backlog"),
    more_than=st.just(0),
    for_s=st.integers(0, 600),
    calm_s=st.integers(60, 600),
)
COURSE = st.lists(st.tuples(LATER_S, st.booleans()), max_size=40)
"""After so many seconds, whether the condition holds."""


def backlog(held: bool) -> Figures:
    return Figures(found=int(held))


@given(terms=TERMS, course=COURSE)
def test_a_rule_fires_and_is_over_in_turns_and_only_after_its_times(
    terms: Terms, course: list[tuple[int, bool]]
) -> None:
    standing, now_ms = Standing(), T0
    run: list[tuple[int, bool]] = []
    """When the condition was looked at, since it last changed."""
    for later_s, held in course:
        now_ms += later_s * 1000
        run = [*run, (now_ms, held)] if run and run[-1][1] == held else [(now_ms, held)]
        after = advance(terms, standing, backlog(held), Moment(now_ms))
        lasted_s = (now_ms - run[0][0]) / 1000
        if after.is_firing and not standing.is_firing:
            assert held
            assert lasted_s >= terms.for_s
            assert after.fired_ms == now_ms
        if standing.is_firing and not after.is_firing:
            assert not held
            assert lasted_s >= terms.calm_s
        if held and lasted_s >= terms.for_s:
            assert after.is_firing, "a rule that holds for long enough fires"
        if not held and lasted_s >= terms.calm_s:
            assert not after.is_firing, "and one that does not is over"
        standing = after


@given(terms=TERMS, course=COURSE)
def test_a_look_that_changes_nothing_is_no_write(terms: Terms, course: list[tuple[int, bool]]) -> None:
    standing, now_ms = Standing(), T0
    for later_s, held in course:
        now_ms += later_s * 1000
        standing = advance(terms, standing, backlog(held), Moment(now_ms))
        again = advance(terms, standing, backlog(held), Moment(now_ms))
        if again.phase == standing.phase:
            assert again is standing


STEP = st.tuples(LATER_S, st.booleans(), st.booleans(), st.integers(0, 5))
"""After so many seconds: whether it holds, whether the notice that is on its way arrives, minutes of a mute."""


@given(terms=TERMS, course=st.lists(STEP, max_size=60))
def test_what_is_told_alternates_and_begins_with_firing(
    terms: Terms, course: list[tuple[int, bool, bool, int]]
) -> None:
    standing, now_ms, told = Standing(), T0, list[bool]()
    for number, (later_s, held, arrives, mute) in enumerate(course):
        now_ms += later_s * 1000
        if mute:
            standing = replace(standing, muted_until_ms=now_ms + (mute - 1) * 60_000)
        standing = advance(terms, standing, backlog(held), Moment(now_ms))
        if is_to_be_told(standing, now_ms):
            assert standing.muted_until_ms <= now_ms
            assert standing.notice is None, "one at a time"
            told.append(standing.is_firing)
            standing = with_notice(standing, Notice(key=str(number), at_ms=now_ms, payload=""))
        assert not is_to_be_told(standing, now_ms), "each change once"
        if arrives and standing.notice is not None:
            standing = without_notice(standing)
    assert told == [number % 2 == 0 for number in range(len(told))]


AGED = st.builds(
    Terms,
    type=st.just("mail"),
    notify=st.just("tell"),
    when=st.sampled_from(["waiting", "no_worker", "silent"]),
    window_s=st.integers(60, 100_000),
    longer_than_s=st.integers(1, 100_000),
    for_s=st.integers(0, 600),
    since_ms=st.integers(0, T0),
)


@given(terms=AGED, leap_s=st.integers(-(10**8), 10**8), waited_s=st.integers(0, 10**6))
def test_a_leap_of_the_clock_alone_makes_nothing_hold(terms: Terms, leap_s: int, waited_s: int) -> None:
    now_ms = T0 + leap_s * 1000
    leapt = Moment(now_ms, even_since_ms=now_ms)
    figures = Figures(since_ms=T0 - waited_s * 1000)
    assert not holds(terms, figures, leapt)
    rising = Standing(phase="rising", since_ms=T0 - 1)
    assert advance(terms, rising, figures, leapt).phase == "ok"


@given(terms=AGED, leap_s=st.integers(-(10**8), 10**8), more_s=st.integers(0, 10**6))
def test_after_a_leap_a_rule_counts_from_there(terms: Terms, leap_s: int, more_s: int) -> None:
    leapt_ms = T0 + leap_s * 1000
    later = Moment(leapt_ms + more_s * 1000, even_since_ms=leapt_ms)
    held = holds(terms, Figures(since_ms=0), later)
    if terms.when == "silent":
        since_ms = max(terms.since_ms, leapt_ms)
        assert held == (later.now_ms - since_ms >= terms.window_s * 1000)
    else:
        assert held == (more_s > terms.longer_than_s)


@given(terms=TERMS, ahead_s=st.integers(1, 10**8))
def test_a_time_of_another_clock_that_was_ahead_is_now(terms: Terms, ahead_s: int) -> None:
    """It is not over, nor fires, before its time has passed on the clock of whoever looks."""
    calming = Standing(phase="calming", since_ms=T0 + ahead_s * 1000, is_told=True)
    assert advance(terms, calming, backlog(False), Moment(T0)).phase == "calming"
    rising = Standing(phase="rising", since_ms=T0 + ahead_s * 1000)
    assert advance(terms, rising, backlog(True), Moment(T0)).phase == ("rising" if terms.for_s else "firing")


@given(terms=TERMS, ahead_s=st.integers(1, 10**8))
def test_a_clock_that_was_ahead_keeps_no_rule_for_long(terms: Terms, ahead_s: int) -> None:
    """However far it was ahead: each rule is over a minute after its time at the latest."""
    standing = Standing(phase="calming", since_ms=T0 + ahead_s * 1000, is_told=True)
    standing = advance(terms, standing, backlog(False), Moment(T0))
    later = Moment(T0 + terms.calm_s * 1000 + AHEAD_MS)
    assert advance(terms, standing, backlog(False), later).phase == "ok"


@given(
    found=st.integers(0, 1000),
    more=st.integers(0, 1000),
    share=st.floats(0, 0.999),
    least=st.integers(1, 1000),
)
def test_a_share_needs_enough_runs(found: int, more: int, share: float, least: int) -> None:
    terms = Terms(type="m", notify="t", when="failures", share_above=share, at_least=least, window_s=60)
    ended = found + more
    held = holds(terms, Figures(found=found, ended=ended), Moment(T0))
    assert held == (ended >= least and found > share * ended) or abs(found - share * ended) < 1e-6


@given(terms=TERMS | AGED)
def test_terms_are_read_as_they_were_written(terms: Terms) -> None:
    assert terms_from(encode_terms(terms)) == terms


def test_a_standing_of_nobody_is_a_beginning() -> None:
    assert standing_from("") == standing_from("nonsense") == Standing()

"""Whether a rule's condition holds, and what follows from that. Pure: time, figures and keys come in.

    ok ──holds──> rising ──for_s later──> firing ──does not hold──> calming ──calm_s later──> ok
                    └──does not hold──> ok    └──────<──holds──────────┘

A rule fires once until it is over, however often its condition comes and goes within calm_s. Each change between firing
and not firing is one notification; while one is on its way no other is made, so they come in order.

Clocks step, and those of daemons differ. `even_since_ms` is since when the clock of whoever looks has gone evenly; what
seems to have lasted since before that may be a leap of the clock, and counts from there. A time that is later than now
counts as now; one that is much later was written by a clock that was ahead, and is not believed. So a leap makes a rule
late, and never makes it fire.
"""

from typing import NamedTuple

from msgspec.structs import replace

from functory.alerts.standing import Notice, Standing
from functory.alerts.terms import Terms
from store.names import AHEAD_MS


class Moment(NamedTuple):
    """When somebody looks."""

    now_ms: int
    even_since_ms: int = 0

    def age_ms(self, since_ms: int) -> int:
        """How long ago that was, as far as the clock can tell."""
        return max(self.now_ms - max(since_ms, self.even_since_ms), 0)

    def is_wrong(self, time_ms: int) -> bool:
        return time_ms > self.now_ms + AHEAD_MS


class Figures(NamedTuple):
    """What a rule's types have to show: failed runs, jobs that wait, or those that ended ok in the window."""

    found: int = 0
    ended: int = 0
    """Runs in the window, whatever became of them; asked for a share only."""
    since_ms: int | None = None
    """Since when the oldest job waits, or nobody has asked; None: nothing waits."""
    used: float = 0.0
    """The share of the quota of which most is used."""


def holds(terms: Terms, figures: Figures, moment: Moment) -> bool:
    if terms.when == "quota":
        return terms.share_above is not None and figures.used > terms.share_above
    if terms.when == "failures" and terms.share_above is not None:
        return figures.ended >= max(terms.at_least, 1) and figures.found / figures.ended > terms.share_above
    if terms.when in {"failures", "backlog"}:
        return figures.found > terms.more_than
    if terms.when == "silent":
        return figures.found == 0 and moment.age_ms(terms.since_ms) >= terms.window_s * 1000
    return figures.since_ms is not None and moment.age_ms(figures.since_ms) > terms.longer_than_s * 1000


def value_of(terms: Terms, figures: Figures, moment: Moment) -> float:
    """The figure that is compared: jobs or runs, a share, or seconds."""
    if terms.when == "failures" and terms.share_above is not None:
        return round(figures.found / figures.ended, 4) if figures.ended else 0.0
    if terms.when in {"waiting", "no_worker"}:
        return 0.0 if figures.since_ms is None else moment.age_ms(figures.since_ms) / 1000
    if terms.when == "quota":
        return round(figures.used, 4)
    return figures.found


def watched(terms: Terms, moment: Moment) -> Terms:
    """The same object, unless a clock that was ahead has written since when the rule watches: then it does from now
    on."""
    return replace(terms, since_ms=moment.now_ms) if moment.is_wrong(terms.since_ms) else terms


def advance(terms: Terms, standing: Standing, figures: Figures, moment: Moment) -> Standing:
    """How the rule stands after a look. The same object if nothing changed."""
    held = holds(terms, figures, moment)
    if moment.is_wrong(standing.since_ms):
        standing = replace(standing, since_ms=moment.now_ms)
    lasted_ms = moment.age_ms(standing.since_ms)
    if held and standing.phase == "calming":
        phase = "firing"
    elif held and not standing.is_firing:
        may_fire = terms.for_s == 0 or (standing.phase == "rising" and lasted_ms >= terms.for_s * 1000)
        phase = "firing" if may_fire else "rising"
    elif not held and standing.is_firing:
        is_over = standing.phase == "calming" and lasted_ms >= terms.calm_s * 1000
        phase = "ok" if is_over else "calming"
    else:
        phase = "firing" if held else "ok"
    if phase == standing.phase:
        return standing
    begins = phase == "firing" and not standing.is_firing
    fired_ms = moment.now_ms if begins else standing.fired_ms
    value = value_of(terms, figures, moment)
    return replace(standing, phase=phase, since_ms=moment.now_ms, fired_ms=fired_ms, value=value)


def is_to_be_told(standing: Standing, now_ms: int) -> bool:
    """Whether the rule stands otherwise than was told last. Not while it is muted, or another notice is on its way."""
    return standing.is_firing != standing.is_told and standing.notice is None and standing.muted_until_ms <= now_ms


def with_notice(standing: Standing, notice: Notice) -> Standing:
    return replace(standing, notice=notice, is_told=standing.is_firing)


def without_notice(standing: Standing) -> Standing:
    """Its job was added."""
    return replace(standing, notice=None, trouble="")

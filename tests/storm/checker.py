"""The judge, in the manner of Jepsen's total-queue: what clients outside were told, held against what was recorded.

A job that was acknowledged must have ended, once. Nothing may have ended that nobody submitted. A submission without an
answer is free to have been taken or not, because its client cannot know. A job may be delivered again only if the
delivery before was cut short by a fault that reached its daemon, or ended by asking for it.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.storm.plan import Kind
from tests.storm.records import Delivery, Execution, Row, Stop, Story

_FINAL: Final = frozenset({"ok", "failed", "abandoned", "cancelled"})
_EVER: Final = 1 << 30


@dataclass(slots=True)
class Verdict:
    """Ids with a sentence each. All but the counts must be empty."""

    lost: dict[str, str] = field(default_factory=dict)
    """Acknowledged or delivered, and no outcome."""
    unexpected: dict[str, str] = field(default_factory=dict)
    """An outcome or an execution of what nobody submitted, or with another's payload, or with a wrong outcome."""
    doubled: dict[str, str] = field(default_factory=dict)
    """Delivered or executed again without a fault that explains it, or after its end; or one submission, two jobs."""
    outcomes: dict[str, str] = field(default_factory=dict)
    """More or less than one accepted outcome."""
    recovered: int = 0
    """Ended although their submission was never answered: allowed."""
    redelivered: int = 0
    """Deliveries that a fault cut short, and that were made again."""
    given_back: int = 0
    """Deliveries that ended before the job had started, so that the attempt did not count."""
    duplicated: int = 0
    """Jobs that were really executed more often than their handler asked for; known only with an observer."""

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.unexpected or self.doubled or self.outcomes)

    def complaints(self) -> Iterator[tuple[str, str, str]]:
        for name in ("lost", "unexpected", "doubled", "outcomes"):
            for id_, text in getattr(self, name).items():
                yield name, id_, text


def judge(story: Story) -> Verdict:
    verdict = Verdict()
    rows = {row.id: row for row in story.rows}
    for id_, payload in story.requests.acknowledged.items():
        if id_ not in rows:
            verdict.lost[id_] = f"{payload} was acknowledged and has no outcome"
    for id_ in story.deliveries.keys() - rows.keys() - story.requests.acknowledged.keys():
        verdict.lost[id_] = (
            f"nobody was told about it, but it was delivered and has no outcome: {story.deliveries[id_]}"
        )
    verdict.recovered = len(rows.keys() - story.requests.acknowledged.keys())
    if len(rows) != len(story.rows):
        verdict.outcomes["*"] = f"{len(story.rows)} rows for {len(rows)} jobs"
    _check_payloads(story, verdict)
    for row in rows.values():
        _check_deliveries(story, row, verdict)
        if story.executions is not None:
            _check_executions(story, row, verdict)
    return verdict


def expected_code(payload: str) -> str:
    """The storm's handler fails what ends in 13, and asks for another attempt of what ends in 7."""
    return "failed" if payload.endswith("13") else "ok"


def _check_payloads(story: Story, verdict: Verdict) -> None:
    """Each id has the payload that its client sent; each payload became one job; its outcome is the right one."""
    requests = story.requests
    found = {**story.payloads, **requests.acknowledged}
    ids_of: defaultdict[str, list[str]] = defaultdict(list)
    for row in story.rows:
        payload = found.get(row.id, "")
        ids_of[payload].append(row.id)
        seen = story.payloads.get(row.id, payload)
        if payload in requests.torn:
            verdict.unexpected[row.id] = f"{payload} is of a request that was never sent whole"
        elif payload not in requests.submitted:
            verdict.unexpected[row.id] = f"nobody submitted {payload!r}"
        elif seen != payload:
            verdict.unexpected[row.id] = f"acknowledged as {payload}, and stored as {seen!r}"
        elif row.code != expected_code(payload):
            verdict.unexpected[row.id] = f"{payload} ended with {row.code}"
    for payload, ids in ids_of.items():
        if len(ids) > 1:
            verdict.doubled[ids[1]] = f"{payload!r} was submitted once and is {len(ids)} jobs: {', '.join(ids[:5])}"


def _check_deliveries(story: Story, row: Row, verdict: Verdict) -> None:
    stops = {(stop.daemon, stop.attempt): stop for stop in story.stops.get(row.id, ())}
    finals = [stop for stop in story.stops.get(row.id, ()) if stop.code in _FINAL]
    if len(finals) > 1:
        verdict.outcomes[row.id] = f"{len(finals)} accepted outcomes: {finals}"
    elif finals and (finals[0].code, finals[0].attempt) != (row.code, row.attempts):
        verdict.outcomes[row.id] = f"{finals[0]} was accepted, and {row} is recorded"
    # Of one attempt at most one delivery is run to its outcome; those that were given back came before it.
    deliveries = sorted(
        story.deliveries.get(row.id, ()), key=lambda it: (it.attempt, (it.daemon, it.attempt) in stops, it.epoch)
    )
    if not deliveries:
        runs = story.executions.get(row.id, []) if story.executions is not None else []
        if not any(_may_lack_its_line(story, run) for run in runs):
            verdict.outcomes[row.id] = f"{row} was recorded without being delivered"
        return
    for delivery, after in itertools.pairwise([*deliveries, None]):
        assert delivery is not None
        stop = stops.get((delivery.daemon, delivery.attempt))
        _check_delivery(story, row, delivery, stop, after, verdict)
    if deliveries[-1].attempt > row.attempts:
        verdict.doubled[row.id] = f"delivered after its end: {deliveries[-1]} of {row}"


def _check_delivery(
    story: Story, row: Row, delivery: Delivery, stop: Stop | None, after: Delivery | None, verdict: Verdict
) -> None:
    if stop is not None and stop.code in _FINAL:
        if after is not None and after.attempt > delivery.attempt:
            verdict.doubled[row.id] = f"delivered after its end: {stop}, then {after}"
    elif stop is not None and stop.code == "error":
        if not _has_fault(story, delivery.daemon, delivery.epoch, stop.epoch):
            verdict.doubled[row.id] = f"its run was cut short, and no fault was on: {stop}"
        verdict.redelivered += 1
    elif stop is None and after is not None and after.attempt == delivery.attempt:
        verdict.given_back += 1
    elif stop is None:
        # Lost with its daemon or its lease; or it ended, and the daemon died before it could say so.
        if not _has_fault(story, delivery.daemon, delivery.epoch, _EVER if after is None else after.epoch):
            verdict.doubled[row.id] = f"no fault was on from {delivery} to {after or 'the end'}"
        verdict.redelivered += after is not None


def _check_executions(story: Story, row: Row, verdict: Verdict) -> None:
    assert story.executions is not None
    runs = story.executions.get(row.id, [])
    deliveries = story.deliveries.get(row.id, [])
    payload = story.requests.acknowledged.get(row.id, story.payloads.get(row.id))
    for run in runs:
        if run.payload != payload:
            verdict.unexpected[row.id] = f"executed with {run.payload}, and submitted as {payload}"
        if not any(it.attempt == run.attempt for it in deliveries) and not _may_lack_its_line(story, run):
            verdict.unexpected[row.id] = f"executed without being delivered: {run}"
    if not any(run.attempt == row.attempts for run in runs):
        verdict.outcomes[row.id] = f"{row} was recorded without being executed"
    asked = sum(stop.code == "retry" for stop in story.stops.get(row.id, ()))
    verdict.duplicated += len(runs) > 1 + asked
    for run, again in itertools.pairwise(runs):
        # Between attempts the deliveries tell; a second execution of one attempt only executions can tell.
        if run.attempt == again.attempt and not _has_fault(story, "", run.epoch, again.epoch):
            verdict.doubled[row.id] = f"executed again without a fault: {run}, {again}"


def _may_lack_its_line(story: Story, run: Execution) -> bool:
    """A log is written a moment later, by a thread: what a daemon did just before it was killed may not be in there."""
    kills = {fault.number for fault in story.faults.values() if fault.kind is Kind.KILL}
    return any(run.epoch in {2 * number - 2, 2 * number - 1} for number in kills)


def _has_fault(story: Story, daemon: str, first_epoch: int, last_epoch: int) -> bool:
    """Whether a fault that could reach this daemon ('': any) was on at some time in between."""
    return any(
        first_epoch <= 2 * fault.number - 1 <= last_epoch
        for fault in story.faults.values()
        if (daemon in fault.affects if daemon else fault.affects)
    )

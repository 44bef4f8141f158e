"""The judge of the storm: with a forged story for each thing that it is there to find."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.storm.checker import Verdict, judge
from tests.storm.plan import Kind
from tests.storm.records import Delivery, Execution, Mark, Row, Stop, Story, history_of

CALM, FAULT, AFTER = 0, 1, 2
"""Epochs: before, during and after fault 1."""


def story(kind: Kind = Kind.KILL, affects: str = "a") -> Story:
    """Two jobs that ended as they should, and one request that was never answered; one fault."""
    made = Story()
    made.requests.read(["S r 2", "A r 1 2", "S s 1", "N s ServerDisconnectedError"])
    made.faults[1] = Mark(1, is_begin=False, affects=frozenset(affects), kind=kind)
    made.executions = defaultdict(list)
    for id_, payload in (("1", "r.0"), ("2", "r.1")):
        run(made, id_, payload, 1, CALM)
        made.stops[id_].append(Stop("a", 1, CALM, "ok"))
        made.rows.append(Row(id_, "ok", 1))
    return made


def run(made: Story, id_: str, payload: str, attempt: int, epoch: int, daemon: str = "a") -> None:
    assert made.executions is not None
    made.deliveries[id_].append(Delivery(daemon, attempt, epoch))
    made.executions[id_].append(Execution(attempt, payload, epoch))


def again(made: Story, epoch: int, *, first_epoch: int = CALM) -> Verdict:
    """Job 1 is cut short and runs again in that epoch, to its one outcome."""
    assert made.executions is not None
    made.deliveries["1"] = []
    made.executions["1"] = []
    run(made, "1", "r.0", 1, first_epoch)
    run(made, "1", "r.0", 2, epoch, daemon="b")
    made.stops["1"] = [Stop("b", 2, epoch, "ok")]
    made.rows[0] = Row("1", "ok", 2)
    return judge(made)


def test_a_good_story() -> None:
    verdict = judge(story())
    assert verdict.is_good
    assert (verdict.recovered, verdict.redelivered, verdict.duplicated) == (0, 0, 0)


def test_what_was_never_answered_may_have_been_taken() -> None:
    made = story()
    run(made, "3", "s.0", 1, CALM)
    made.stops["3"] = [Stop("a", 1, CALM, "ok")]
    made.rows.append(Row("3", "ok", 1))
    made.payloads["3"] = "s.0"
    verdict = judge(made)
    assert verdict.is_good
    assert verdict.recovered == 1


def test_lost() -> None:
    made = story()
    made.rows.pop()
    assert judge(made).lost.keys() == {"2"}


def test_lost_is_also_what_was_taken_without_an_answer_and_vanished() -> None:
    made = story()
    run(made, "3", "s.0", 1, CALM)
    assert judge(made).lost.keys() == {"3"}


@pytest.mark.parametrize("payload", ["nobody's", "", "t.0"])
def test_unexpected(payload: str) -> None:
    made = story()
    made.requests.read(["T t 5"])
    made.rows.append(Row("9", "ok", 1))
    made.payloads["9"] = payload
    assert "9" in judge(made).unexpected


def test_unexpected_is_also_another_payload_in_the_store() -> None:
    made = story()
    made.payloads["1"] = "r.1"
    assert judge(made).unexpected.keys() == {"1"}


def test_unexpected_is_also_another_outcome_than_the_payload_asks_for() -> None:
    made = story()
    made.rows[0] = Row("1", "failed", 1)
    made.stops["1"] = [Stop("a", 1, CALM, "failed")]
    assert judge(made).unexpected.keys() == {"1"}


def test_unexpected_is_also_an_execution_with_the_payload_of_another_job() -> None:
    made = story()
    assert made.executions is not None
    made.executions["1"] = [Execution(1, "r.1", CALM)]
    assert judge(made).unexpected.keys() == {"1"}


def test_one_submission_that_became_two_jobs() -> None:
    made = story()
    run(made, "9", "r.0", 1, CALM)
    made.stops["9"] = [Stop("a", 1, CALM, "ok")]
    made.rows.append(Row("9", "ok", 1))
    made.payloads["9"] = "r.0"
    assert judge(made).doubled.keys() == {"9"}


def test_a_job_that_a_fault_cut_short_may_run_again() -> None:
    verdict = again(story(), AFTER)
    assert verdict.is_good
    assert (verdict.redelivered, verdict.duplicated) == (1, 1)


def test_a_job_may_not_run_again_without_a_fault() -> None:
    assert again(story(), CALM).doubled.keys() == {"1"}


def test_a_job_may_not_run_again_for_a_fault_that_was_over_before_it_began() -> None:
    assert again(story(), AFTER, first_epoch=AFTER).doubled.keys() == {"1"}


def test_a_job_may_not_run_again_for_a_fault_of_another_daemon() -> None:
    assert again(story(affects="b"), AFTER).doubled.keys() == {"1"}


def test_a_dropped_connection_is_no_reason_to_run_a_job_again() -> None:
    assert again(story(Kind.TORN_REQUEST, affects=""), AFTER).doubled.keys() == {"1"}


def test_a_job_may_not_run_after_its_end() -> None:
    made = story()
    run(made, "1", "r.0", 2, AFTER)
    assert judge(made).doubled.keys() == {"1"}


@pytest.mark.parametrize(
    ("kind", "epoch", "is_good"),
    [(Kind.KILL, CALM, True), (Kind.KILL, FAULT, True), (Kind.KILL, AFTER, False), (Kind.FREEZE, FAULT, False)],
)
def test_only_who_was_killed_may_not_have_said_that_it_started(kind: Kind, epoch: int, *, is_good: bool) -> None:
    made = story(kind)
    assert made.executions is not None
    made.executions["1"] = [Execution(1, "r.0", epoch), Execution(2, "r.0", AFTER)]
    made.deliveries["1"] = [Delivery("a", 2, AFTER)]
    made.stops["1"] = [Stop("a", 2, AFTER, "ok")]
    made.rows[0] = Row("1", "ok", 2)
    verdict = judge(made)
    assert verdict.is_good is is_good
    assert ("1" in verdict.unexpected) is not is_good


@pytest.mark.parametrize(
    ("kind", "epoch", "is_good"),
    [(Kind.KILL, CALM, True), (Kind.KILL, FAULT, True), (Kind.KILL, AFTER, False), (Kind.FREEZE, CALM, False)],
)
def test_only_who_was_killed_may_not_have_said_anything_of_a_job(kind: Kind, epoch: int, *, is_good: bool) -> None:
    """It ran, and its end was recorded, before a line of it was written."""
    made = story(kind)
    assert made.executions is not None
    made.executions["1"] = [Execution(1, "r.0", epoch)]
    made.deliveries["1"] = []
    made.stops["1"] = []
    verdict = judge(made)
    assert verdict.is_good is is_good
    assert ("1" in verdict.outcomes) is not is_good


def test_one_attempt_may_not_be_executed_twice_without_a_fault() -> None:
    made = story()
    run(made, "1", "r.0", 1, CALM)
    assert judge(made).doubled.keys() == {"1"}


def test_a_run_that_broke_needs_a_fault() -> None:
    made = story()
    made.stops["1"].insert(0, Stop("a", 1, CALM, "error"))
    made.stops["1"][1] = Stop("a", 2, CALM, "ok")
    run(made, "1", "r.0", 2, CALM)
    made.rows[0] = Row("1", "ok", 2)
    assert judge(made).doubled.keys() == {"1"}


def test_a_job_that_asked_for_another_attempt_gets_it() -> None:
    made = story()
    made.stops["1"] = [Stop("a", 1, CALM, "retry"), Stop("b", 2, CALM, "ok")]
    run(made, "1", "r.0", 2, CALM, daemon="b")
    made.rows[0] = Row("1", "ok", 2)
    verdict = judge(made)
    assert verdict.is_good
    assert verdict.duplicated == 0


def test_two_accepted_outcomes() -> None:
    made = story()
    run(made, "1", "r.0", 2, AFTER, daemon="b")
    made.stops["1"].append(Stop("b", 2, AFTER, "ok"))
    made.rows[0] = Row("1", "ok", 2)
    assert judge(made).outcomes.keys() == {"1"}


def test_another_outcome_than_the_one_that_was_accepted() -> None:
    made = story()
    made.rows[0] = Row("1", "ok", 3)
    assert judge(made).outcomes.keys() == {"1"}


def test_an_outcome_without_an_execution() -> None:
    made = story()
    assert made.executions is not None
    del made.executions["1"]
    assert judge(made).outcomes.keys() == {"1"}


def test_an_outcome_without_a_delivery() -> None:
    made = story()
    made.executions = None
    del made.deliveries["1"]
    assert judge(made).outcomes.keys() == {"1"}


def test_a_job_twice_in_the_store() -> None:
    made = story()
    made.rows.append(made.rows[0])
    assert not judge(made).is_good


def test_the_records_are_read_as_they_are_written(tmp_path: Path) -> None:
    begin = Mark(1, is_begin=True, affects=frozenset("ab"), kind=Kind.STORE_KILL)
    end = begin._replace(is_begin=False)
    started = "2026-11-15T05:58:57.978Z INFO job.started id=1 jobtype=storm-work attempt=1 waited_ms=97"
    stopped = "2026-11-15T05:58:58.220Z INFO job.stopped id=1 jobtype=storm-work attempt=1 code=ok exitcode=200"
    made = Story()
    made.read_daemon("a", ["Functory listens", started, begin.line(), end.line(), stopped])
    made.read_observer(["run 1 1 r.0", begin.line(), "run 2 1 r.1"])
    assert made.deliveries["1"] == [Delivery("a", 1, CALM)]
    assert made.stops["1"] == [Stop("a", 1, AFTER, "ok")]
    assert made.executions == {"1": [Execution(1, "r.0", CALM)], "2": [Execution(1, "r.1", FAULT)]}
    assert made.faults[1].affects == {"a", "b"}
    (tmp_path / "a.log").write_text(f"{begin.line()}\n{started}\n{started.replace('id=1', 'id=7')}\n")
    assert history_of(tmp_path, ["id=7 "]) == [f"a: {begin.line()}", f"a: {started.replace('id=1', 'id=7')}"]

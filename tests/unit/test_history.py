"""The checker of the storm: it must find what it is there to find."""

from tests.support.history import Ended, History


def history() -> History:
    made = History()
    made.submit(["a", "b", "c"])
    made.acknowledge(["1", "2"], ["a", "b"])
    return made


def test_a_good_history() -> None:
    verdict = history().verdict([Ended("1", "a"), Ended("2", "b")])
    assert verdict == (frozenset(), frozenset(), frozenset(), 0)


def test_what_was_never_answered_may_have_been_taken() -> None:
    assert history().verdict([Ended("1", "a"), Ended("2", "b"), Ended("3", "c")]).recovered == 1


def test_a_lost_an_unexpected_and_a_doubled_job_are_found() -> None:
    verdict = history().verdict([Ended("1", "a"), Ended("4", "a"), Ended("5", "nobody's")])
    assert verdict.lost == {"2"}
    assert verdict.unexpected == {"5"}
    assert verdict.doubled == {"a"}


def test_a_job_with_the_payload_of_another_is_found() -> None:
    assert history().verdict([Ended("1", "b"), Ended("2", "b")]).unexpected == {"1"}

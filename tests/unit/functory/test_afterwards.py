"""Results that become payloads of other types: when, and how often in a row."""

from typing import Any

import pytest

from functory.errors import InvalidInput
from functory.execution.afterwards import (
    MOST_LINKS,
    NOTHING_MORE,
    Afterwards,
    afterwards_of,
    kept,
    links_of,
    options_of,
    passed_on,
)
from functory.execution.wishes import wishes_of
from handlers.model import Handler
from store.base import Archive, Code, Discard, Finish, Job, Outcome, Rearm, Release, Retry, Unclaim
from vocabulary.new_job import NewJob
from vocabulary.origin import Origin

JOB = Job("j1", "acme-a", b"", 0, "a1", 1, 1, 500, 0, 0)
CHAIN = Afterwards("good", "bad")


def ended(code: Code) -> Archive:
    return Archive("j1", 1, Outcome(code, 200, 0, result=b"r"))


@pytest.mark.parametrize(
    ("release", "target"),
    [
        (ended(Code.OK), "good"),
        (ended(Code.FAILED), "bad"),
        (ended(Code.ABANDONED), "bad"),
        (ended(Code.CANCELLED), ""),
        (Rearm("j1", 1, 5, Outcome(Code.OK, 200, 0, result=b"r")), "good"),
        (Retry("j1", 1, 5, Outcome(Code.ERROR, 500, 0, result=b"r")), ""),
        (Unclaim("j1", 1), ""),
    ],
)
def test_who_gets_the_result(release: Release, target: str) -> None:
    made = (NewJob("x", b""),)
    got = passed_on(CHAIN, JOB, release, made)
    code = "" if isinstance(release, Unclaim) else release.outcome.code
    follower = NewJob(target, b"r", links=1, follows=Origin("j1", "a", code))
    assert got == ((*made, follower) if target else made)
    assert passed_on(NOTHING_MORE, JOB, release, made) == made
    assert passed_on(Afterwards(), JOB, release, made) == made


def test_a_run_that_made_children_passes_nothing_on() -> None:
    for options, is_kept in (
        ("child=1", True),
        ("delay_s=1&child=true", True),
        ("child=0", False),
        ("sibling=1", False),
    ):
        made = (NewJob("x", b"", options),)
        assert (passed_on(CHAIN, JOB, ended(Code.OK), made) == made) is is_kept


def test_a_result_that_is_nothing_is_an_empty_payload() -> None:
    (new,) = passed_on(CHAIN, JOB, Archive("j1", 1, Outcome(Code.OK, 200, 0)), ())
    assert new.payload == b""


def test_links_are_counted_and_come_to_an_end() -> None:
    job = JOB
    for number in range(1, MOST_LINKS + 1):
        (new,) = passed_on(CHAIN, job, ended(Code.OK), ())
        (wish,) = wishes_of(job, [new], 0)
        assert wish.jobtype == "acme-good"
        job = job._replace(options=wish.options.options)
        assert links_of(job) == number
    with pytest.raises(InvalidInput, match="100 times in a row"):
        wishes_of(job, passed_on(CHAIN, job, ended(Code.OK), ()), 0)


@pytest.mark.parametrize(
    "options", ["", "{}", '{"chain":"x"}', '{"chain":-1}', '{"chain":1e3}', '"chain":', '{"chain":true}']
)
def test_what_a_tenant_says_in_its_own_options_is_no_trouble(options: str) -> None:
    assert links_of(JOB._replace(options=options)) == 0


def test_the_handler_says_where_to() -> None:
    fields: dict[str, Any] = {"lang": "sh", "body": "x"}
    assert afterwards_of(Handler(**fields)) is NOTHING_MORE
    assert afterwards_of(Handler(**fields, then="b")) == Afterwards("b", "")
    assert options_of(0) == ""


@pytest.mark.parametrize(
    ("keep", "code", "is_kept"),
    [
        ("all", Code.OK, True),
        ("failed", Code.OK, False),
        ("failed", Code.FAILED, True),
        ("failed", Code.ABANDONED, True),
        ("none", Code.OK, False),
        ("none", Code.FAILED, False),
        ("none", Code.ABANDONED, False),
        ("none", Code.CANCELLED, True),
    ],
)
def test_which_ended_jobs_are_kept(keep: str, code: Code, is_kept: bool) -> None:
    release = ended(code)
    assert kept(Afterwards(keep=keep), JOB, release, ()) == (release if is_kept else Discard(*release))
    assert isinstance(kept(Afterwards(keep=keep), JOB, release, ()), Archive) is is_kept


def test_jobs_that_others_look_for_are_kept() -> None:
    nothing = Afterwards(keep="none")
    for job in (JOB._replace(parent="p"), JOB._replace(children=1), JOB._replace(seq=7)):
        assert isinstance(kept(nothing, job, ended(Code.OK), ()), Archive)
    again = Retry("j1", 1, 5, Outcome(Code.ERROR, 500, 0))
    assert kept(nothing, JOB, again, ()) is again


def test_a_run_that_made_children_leaves_what_it_carries_on() -> None:
    carries = Finish("j1", 1, Outcome(Code.OK, 200, 0), b"carried on")
    assert kept(Afterwards(keep="none"), JOB, carries, (NewJob("x", b"", "child=1"),)) is carries
    assert kept(Afterwards(keep="none"), JOB, carries, (NewJob("x", b"", "unique=u"),)) == Discard(*carries[:3])

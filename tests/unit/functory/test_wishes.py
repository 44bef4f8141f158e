"""The options of jobs that a job makes: what can be said, and what is refused in words."""

import pytest

from functory.errors import InvalidInput
from functory.execution.wishes import (
    JournalPiece,
    Wish,
    asked_for,
    creations_of,
    go_into_the_store,
    journal_pieces,
    wishes_of,
)
from functory.intake.job_options import PLAIN, JobOptions
from store.base import Archive, Code, Discard, Finish, Job, Outcome, Release, Retry
from vocabulary.new_job import NewJob
from vocabulary.origin import Origin, origin_of

NOW_MS = 1_800_000_000_000
JOB = Job("j1", "acme-album", b"", NOW_MS, "a1", 1, 1, 500, NOW_MS, NOW_MS, parent="p1")


def wish(options: str, job: Job = JOB) -> Wish:
    (one,) = wishes_of(job, [NewJob("piece", b"x", options)], NOW_MS)
    return one


def test_options_are_read_and_the_tenant_is_added() -> None:
    assert wish("") == Wish("acme-piece", b"x")
    assert wish("delay_s=1.5&priority=1000&domain=d%26d").options == JobOptions(NOW_MS + 1500, 1000, "d&d")
    assert wish("key=a%20b").options == JobOptions(key="a b")
    assert wish("child=1").parent == "j1"
    assert wish("sibling=true").parent == "p1"
    assert wish("child=0") == Wish("acme-piece", b"x")
    assert wish("unique=%C3%BC%7C").unique == "ü|"
    assert wish("unique=u").keeps == {"repeat", "priority"}
    assert wish("unique=u&priority=0").keeps == {"repeat"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("delay_s=-1", "delay_s"),
        ("delay_s=nan", "delay_s"),
        ("delay_s=1e99", "delay_s"),
        ("priority=7", "must be 0, 500 or 1000"),
        ("child=yes", "must be 1 or 0"),
        ("child=1&sibling=1", "together with child"),
        ("colour=red", "is not an option"),
        ("unique=", "unique of a new job is empty"),
        ("key=&child=1", "key of a new job is empty"),
        ("domain=", "domain of a new job is empty"),
        ("child=1&child=1", "twice"),
        ("child", "cannot be read"),
        ("unique=%FF", "cannot be read"),
        ("&".join(f"child{n}=1" for n in range(20)), "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(options: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        wish(options)


def test_names_are_those_of_the_store() -> None:
    for options in ("unique=%0A", "domain=%00", "key=%0A", f"unique={'x' * 256}"):
        with pytest.raises(InvalidInput, match="255 characters"):
            wish(options)


def test_a_job_without_a_parent_has_no_siblings() -> None:
    with pytest.raises(InvalidInput, match="has no parent"):
        wish("sibling=1", JOB._replace(parent=""))


def test_the_journal_takes_what_has_neither_name_nor_parent() -> None:
    plain, later = wish(""), wish("delay_s=1")
    assert not go_into_the_store(JOB, [plain, later])
    assert go_into_the_store(JOB, [plain, wish("child=1")])
    assert go_into_the_store(JOB, [plain, wish("unique=u")])
    pieces = list(journal_pieces([plain, later, plain]))
    assert pieces == [
        JournalPiece("acme-piece", [b"x", b"x"], PLAIN, []),
        JournalPiece("acme-piece", [b"x"], later.options, []),
    ]


def test_jobs_that_follow_different_jobs_share_a_write() -> None:
    """A write for each would be a sync for each."""
    origins = [Origin(f"j{number}", "a", code) for number, code in enumerate(["ok", "failed", "ok"])]
    wanted = [NewJob("piece", b"x", links=1, follows=origin) for origin in origins]
    wishes = wishes_of(JOB, wanted, NOW_MS)
    (piece,) = journal_pieces(wishes)
    assert piece.lines == [b"x"] * 3
    assert piece.notes == ["j0 a ok", "j1 a failed", "j2 a ok"]
    ids = [f"20270115T080000000Z-a1-00000{number}" for number in range(3)]
    assert [origin_of(job.options) for job, _ in creations_of(wishes, ids, NOW_MS)] == origins


def test_creations_have_everything_that_was_said() -> None:
    job_id = "20270115T080000000Z-a1-000001"
    ((job, keeps),) = creations_of([wish("unique=u&child=1&priority=0")], [job_id], NOW_MS)
    assert (job.id, job.jobtype, job.data, job.unique, job.parent, job.priority) == (
        job_id,
        "acme-piece",
        b"x",
        "u",
        "j1",
        0,
    )
    assert keeps == {"repeat"}


def test_a_numbered_job_makes_its_jobs_in_the_write_that_completes_it_and_only_then() -> None:
    numbered, wanted = JOB._replace(seq=3), [NewJob("piece", b"x", "")]
    assert go_into_the_store(numbered, [wish("")])
    assert not go_into_the_store(numbered, [])
    ends: list[tuple[Release, bool]] = [
        (Archive("j1", 1, Outcome(Code.OK, 200, NOW_MS)), True),
        (Finish("j1", 1, Outcome(Code.OK, 200, NOW_MS), b"carried on"), True),
        (Discard("j1", 1, Outcome(Code.OK, 200, NOW_MS)), True),
        (Discard("j1", 1, Outcome(Code.FAILED, 400, NOW_MS)), False),
        (Archive("j1", 1, Outcome(Code.FAILED, 400, NOW_MS)), False),
        (Retry("j1", 1, NOW_MS, Outcome(Code.RETRY, 100, NOW_MS)), False),
    ]
    for release, counts in ends:
        assert list(asked_for(numbered, release, wanted)) == (wanted if counts else [])
        assert list(asked_for(JOB, release, wanted)) == wanted, "any other job makes them however it ends"

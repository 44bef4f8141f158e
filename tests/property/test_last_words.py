"""Whose it is what was printed past the replies when a context ended in the middle of a batch."""

import pytest

from handlers.model import Handler
from runner import protocol
from runner.batch import Batch
from runner.launch import Level
from runner.limits import ContextLimits
from runner.protocol import Reply
from runner.raw_log import RawLog
from tests.support.engines import Run, jobs

LIMITS = ContextLimits()
NUMBER = 1


@pytest.mark.parametrize(
    ("claimed_us", "is_gone", "is_leaving", "logs"),
    [
        ((5, 6), True, False, [b"", b"", b"said\n"]),
        ((5, 6), False, False, [b"", b"said\n", b""]),
        ((5, 6), True, True, [b"", b"said\n"]),
        ((30_000, 6), True, False, [b"said\n", b"", b""]),
    ],
)
def test_what_was_read_with_replies_before_the_end_is_with_the_job_that_was_running(
    claimed_us: tuple[int, ...], is_gone: bool, is_leaving: bool, logs: list[bytes]
) -> None:
    """However long the daemon was busy. New jobs are made, whoever they are of: those of a failed job would be lost."""
    seen = Run()
    log = RawLog(LIMITS)
    batch = Batch(
        NUMBER, jobs(*"abcd"), Handler("python", "x"), seen.hear, log=log, limits=LIMITS, level=Level.L0, now=0.0,
        is_gone=lambda: is_gone,
    )  # fmt: skip
    log.feed(b"said\nJ: mail|x\n")
    replies = [Reply(protocol.STOPPED, 200, index, us, b"") for index, us in enumerate(claimed_us)]
    batch.feed([*replies, Reply(protocol.LEAVING, 0, NUMBER, 0, b"")] if is_leaving else replies, 9.0)
    batch.give_up(502, "ended", 9.0)
    assert [one.log for one in seen.stopped] == logs
    assert sum(len(one.new_jobs) for one in seen.stopped) == 1


@pytest.mark.parametrize(
    ("count", "claimed_us", "is_gone", "whose"),
    [
        (2, (5, 5), True, 1),
        (3, (5, 5), True, 2),
        (3, (5, 5), False, 1),
        (3, (5, 30_000), True, 1),
        (3, (30_000, 5), True, 0),
    ],
)
def test_a_word_of_progress_between_replies_changes_nothing_about_that(
    count: int, claimed_us: tuple[int, int], is_gone: bool, whose: int
) -> None:
    """It is asked once whether the context is gone, and bytes that were dropped are counted where the log is."""
    seen, asked = Run(), list[bool]()
    log = RawLog(LIMITS)

    def is_gone_now() -> bool:
        asked.append(is_gone)
        return is_gone

    batch = Batch(
        NUMBER, jobs(*"abc"[:count]), Handler("python", "x"), seen.hear, log=log, limits=LIMITS, level=Level.L0,
        now=0.0, is_gone=is_gone_now,
    )  # fmt: skip
    log.feed(b"x" * LIMITS.log_bytes + b"said\n")
    first, second = (Reply(protocol.STOPPED, 200, index, us, b"") for index, us in enumerate(claimed_us))
    batch.feed([first, Reply(protocol.PROGRESS, 0, NUMBER, 0, b"1"), second], 9.0)
    batch.give_up(502, "ended", 9.0)
    assert [(len(one.log), one.log_dropped) for one in seen.stopped] == [
        (LIMITS.log_bytes, 5) if index == whose else (0, 0) for index in range(count)
    ]
    assert len(asked) <= 1

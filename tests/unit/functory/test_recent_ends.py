"""Jobs that ended a moment ago: bounded, also when one of them ends again."""

import pytest

from functory.execution import recent_ends
from functory.execution.recent_ends import RecentEnds
from store.base import Job, JobRecord, JobState
from tests.support.clocks import FakeClock


def record(number: int, size_bytes: int) -> JobRecord:
    job = Job(f"id-{number}", "acme-x", b"", 0, "", 1, 1, 500, 0, 0)
    return JobRecord(job, JobState.ARCHIVED, None, 0, 0, size_bytes, 0, 0, 0)


def test_one_that_ends_again_takes_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ends, "_MOST_BYTES", 40_000)
    recent = RecentEnds(FakeClock())
    recent.add(record(1, 5_000))
    for size_bytes in range(9_000, 1_000, -500):
        recent.add(record(2, size_bytes))
    assert recent.find("acme", "id-1") is not None, "nothing was pushed out"
    found = recent.find("acme", "id-2")
    assert found
    assert found.data_bytes == 1_500


def test_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ends, "_MOST_BYTES", 40_000)
    recent = RecentEnds(FakeClock())
    for number in range(6):
        recent.add(record(number, 9_000))
    assert [recent.find("acme", f"id-{number}") is not None for number in range(6)] == [False] * 2 + [True] * 4

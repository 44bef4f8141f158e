"""Jobs that ended a moment ago: bounded, also when one of them ends again; longer for who waits for one."""

import pytest

from functory.execution.straight import recent_ends
from functory.execution.straight.recent_ends import RecentEnds
from store.base import Job, JobRecord, JobState
from tests.support.clocks import FakeClock


def record(number: int, size_bytes: int, tenant: str = "acme") -> JobRecord:
    job = Job(f"id-{number}", f"{tenant}-x", b"", 0, "", 1, 1, 500, 0, 0)
    return JobRecord(job, JobState.ARCHIVED, None, 0, 0, size_bytes, 0, 0, 0)


def test_one_that_ends_again_takes_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ends, "_MOST_BYTES", 40_000)
    recent = RecentEnds(FakeClock())
    recent.add(record(1, 5_000), is_kept=True)
    for size_bytes in range(9_000, 1_000, -500):
        recent.add(record(2, size_bytes), is_kept=True)
    assert recent.find("acme", "id-1", also_kept=True) is not None, "nothing was pushed out"
    found = recent.find("acme", "id-2", also_kept=True)
    assert found
    assert found.data_bytes == 1_500


def test_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ends, "_MOST_BYTES", 40_000)
    recent = RecentEnds(FakeClock())
    for number in range(6):
        recent.add(record(number, 9_000), is_kept=True)
    found = [recent.find("acme", f"id-{number}", also_kept=True) is not None for number in range(6)]
    assert found == [False] * 2 + [True] * 4


def test_one_that_is_kept_is_only_for_who_has_waited() -> None:
    recent = RecentEnds(FakeClock())
    recent.add(record(1, 10), is_kept=True)
    recent.add(record(2, 10), is_kept=False)
    assert recent.find("acme", "id-1", also_kept=False) is None
    assert recent.find("acme", "id-2", also_kept=False) is not None
    assert recent.find("other", "id-2", also_kept=True) is None


def test_one_that_is_not_kept_stays_while_somebody_waits_for_it() -> None:
    clock = FakeClock()
    recent = RecentEnds(clock)
    recent.add(record(1, 10), is_kept=False)
    with recent.awaiting("acme", ["id-1", "id-2"]):
        with recent.awaiting("acme", ["id-2"]), recent.awaiting("other", ["id-3"]):
            recent.add(record(2, 20 << 20), is_kept=False)
            recent.add(record(3, 10 << 20), is_kept=False)  # nobody of its tenant waits for it
        clock.advance(60)
        assert [recent.find("acme", f"id-{number}", also_kept=False) is not None for number in (1, 2, 3)] == [
            True,
            True,
            False,
        ]
    assert recent.find("acme", "id-2", also_kept=False) is None, "too large"
    assert recent.find("acme", "id-1", also_kept=False) is not None, "for who did not get it, and asks again"
    clock.advance(60)
    assert recent.find("acme", "id-1", also_kept=False) is None


def test_who_waits_for_nothing_is_in_nobodys_way() -> None:
    recent = RecentEnds(FakeClock())
    with recent.awaiting("acme", []):
        with recent.awaiting("acme", ["id-1"]):
            assert "id-1" in recent.awaited_of("acme")
        assert "id-1" not in recent.awaited_of("acme")


def test_what_is_waited_for_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ends, "_MOST_AWAITED_BYTES", 120_000)
    recent = RecentEnds(FakeClock())
    for _ in range(2):  # what was let go makes room
        with recent.awaiting("acme", [f"id-{number}" for number in range(6)]):
            for number in (0, 1, 1, 2, 3, 4, 5):
                recent.add(record(number, 9_000), is_kept=False)
            recent._ends.clear()
            found = [recent.find("acme", f"id-{number}", also_kept=False) is not None for number in range(6)]
            assert found == [True] * 4 + [False] * 2


def test_one_tenant_does_not_take_the_room_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One large job each may have, beside a few small ones."""
    monkeypatch.setattr(recent_ends, "_MOST_AWAITED_BYTES", 40_000)
    recent = RecentEnds(FakeClock())
    with recent.awaiting("acme", [f"id-{number}" for number in range(6)]), recent.awaiting("other", ["id-9"]):
        for number, size_bytes in enumerate((31_000, 4_000, 15_000, 4_000, 4_000, 4_000)):
            recent.add(record(number, size_bytes), is_kept=False)
        recent.add(record(9, 15_000, "other"), is_kept=False)
        recent._ends.clear()
        found = [recent.find("acme", f"id-{number}", also_kept=False) is not None for number in range(6)]
        assert found == [False, True, True, False, False, False]
        assert recent.find("other", "id-9", also_kept=False) is not None

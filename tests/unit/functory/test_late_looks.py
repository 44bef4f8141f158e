"""What it costs to end jobs that waited for too long, and whom that keeps waiting."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from functory.daemon.late_jobs import LateJobs
from store.base import ExpireReport, TypeGate, WaitingType
from tests.support.clocks import FakeClock


class Place:
    """Types whose handler allows a minute, and how many late jobs they have; those of a round have none."""

    def __init__(self, **late: int) -> None:
        self.clock = FakeClock()
        self.late = Counter({f"acme-{name}": jobs for name, jobs in late.items()})
        self.asked: list[str] = []
        self.looks = 0
        self.seen: list[WaitingType] | None = None
        self.began_ms = self.clock.now_ms()
        names = ("get_waiting_jobtypes", "get_type_gates", "expire_jobs")
        store = SimpleNamespace(**{name: getattr(self, f"_{name}") for name in names})
        shared: Any = SimpleNamespace(store=store, clock=self.clock, progress=SimpleNamespace(beat=lambda _: None))
        tenants: Any = SimpleNamespace(of=lambda _: SimpleNamespace(incarnation=0))
        handlers: Any = SimpleNamespace(get=self._get)
        self.jobs = LateJobs(shared, handlers, tenants, lambda: self.seen)

    def waiting(self) -> list[WaitingType]:
        return [WaitingType(jobtype, 1, self.began_ms, 1) for jobtype in self.late]

    async def _get(self, _jobtype: str, _version: int) -> Any:
        return SimpleNamespace(max_wait_s=60)

    async def _get_waiting_jobtypes(self, *, now_ms: int, runnable: bool) -> list[WaitingType]:
        assert runnable
        assert now_ms
        self.looks += 1
        self.clock.advance(0.5)
        return self.waiting()

    async def _get_type_gates(self, jobtypes: list[str]) -> list[TypeGate]:
        return [TypeGate(jobtype, 1, is_open=True) for jobtype in jobtypes]

    async def _expire_jobs(self, *, jobtype: str, limit: int, **_: int) -> ExpireReport:
        self.asked.append(jobtype)
        ended = min(limit, self.late[jobtype])
        self.late[jobtype] -= ended
        return ExpireReport(0, ended, more=ended == limit)


async def test_many_late_jobs_of_one_type_do_not_keep_those_of_others_waiting() -> None:
    place = Place(flood=10_000_000, few=5)
    place.clock.advance(61.0)
    await place.jobs.look()
    assert place.asked[:2] == ["acme-flood", "acme-few"]
    assert place.late["acme-few"] == 0
    assert 10_000 <= 10_000_000 - place.late["acme-flood"] <= 100_000, "it goes on, and comes to the next look"


async def test_what_waits_on_is_asked_for_now_and_then() -> None:
    """The round of a schedule, say, which waits for a token."""
    place = Place(rounds=0)
    place.clock.advance(61.0)
    for _ in range(600):
        place.seen = place.waiting()
        await place.jobs.look()
        place.clock.advance(0.1)
    assert place.asked == ["acme-rounds"] * 2


async def test_who_looks_itself_does_so_for_a_part_of_the_time() -> None:
    place = Place(rounds=0)
    for _ in range(600):
        await place.jobs.look()
        place.clock.advance(0.1)
    assert 5 <= place.looks <= 13

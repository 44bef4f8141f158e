"""What the outbox is told of the jobs of a batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from functory.execution.batches import Batches
from functory.execution.tenant_book import TenantBook
from handlers.model import Handler
from runner.launch import Level
from runner.outcome import Stopped
from scheduler.retry import RetryPolicy
from store.base import Job, Store
from tests.support.clocks import FakeClock
from tests.support.jobs import JOBTYPE, T0
from vocabulary.new_job import NewJob

if TYPE_CHECKING:
    from functory.execution.outbox import Outbox
    from runner.runner import Runner

_MADE = tuple(NewJob("a", b"x") for _ in range(1000))


class _Runner:
    """Each job makes a thousand others."""

    async def run_jobs(
        self,
        jobtype: str,
        jobs: Sequence[Job],
        handler: Handler,
        on_stopped: Callable[[Sequence[Stopped]], None],
        ready: object,
        *,
        incarnation: int,
    ) -> list[str]:
        on_stopped([Stopped(job.id, "ok", 200, b"", b"", 1.0, _MADE, Level.L0) for job in jobs])
        return []


class _Outbox:
    def __init__(self) -> None:
        self.held_bytes = 0

    def put(
        self, _endings: object, sizes: Mapping[tuple[str, int], int] | None = None, _follows: object = None
    ) -> None:
        self.held_bytes += sum((sizes or {}).values())


async def test_new_jobs_count_with_what_they_take_in_memory_and_not_with_their_payload_alone() -> None:
    """A job of one letter takes some two hundred times as much."""
    told = _Outbox()
    batches = Batches(
        cast("Store", None),
        cast("Runner", _Runner()),
        cast("Outbox", told),
        TenantBook(cast("Store", None)),
        FakeClock(T0),
    )
    going = [Job(str(number), JOBTYPE, b"", T0, "a", 1, 1, 500, T0, T0) for number in range(3)]
    await batches.run(JOBTYPE, Handler("python", ""), 1, RetryPolicy(), going, lambda _: True, 0)
    assert told.held_bytes > 3 * 1000 * 200

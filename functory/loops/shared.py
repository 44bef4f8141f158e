"""The value that every loop of a daemon works with."""

from dataclasses import dataclass

from functory.loops.courtesy import Courtesy
from functory.loops.job_log import JobLog
from functory.supervision.progress import Progress
from journal import Journal
from store.base import Store
from vocabulary.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    store: Store
    journal: Journal
    clock: Clock
    progress: Progress
    courtesy: Courtesy
    owner: str
    """This daemon's sysid. It is in the lock of every job that this daemon claims."""
    job_log: JobLog | None = None
    """None: no log line for each job."""


def make_shared(store: Store, journal: Journal, clock: Clock, owner: str, job_log: JobLog | None = None) -> Shared:
    """Make one, with its own progress and courtesy on the same clock."""
    return Shared(
        store=store,
        journal=journal,
        clock=clock,
        progress=Progress(clock.monotonic_s),
        courtesy=Courtesy(clock),
        owner=owner,
        job_log=job_log,
    )

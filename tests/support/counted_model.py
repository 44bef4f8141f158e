"""What can be read of the store in memory beside its jobs: counts, sizes, schedules."""

from typing import TYPE_CHECKING

from store.base import Code, JobState, TypeCounters, Usage, state_of
from vocabulary.names import tenant_of

if TYPE_CHECKING:
    from tests.support.model_entry import Entry


class CountedModel:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.events: dict[str, dict[Code, int]] = {}
        self.paused: set[str] = set()

    def list_repeating(self, tenant: str) -> list[str]:
        """In order of type and id."""
        found = [e for e in self.entries.values() if (e.live and e.job.repeat) or e.on_hold]
        found = [e for e in found if tenant_of(e.job.jobtype) == tenant]
        return [e.job.id for e in sorted(found, key=lambda e: (e.job.jobtype, e.job.id))]

    def get_counters(self, *, now_ms: int) -> list[TypeCounters]:
        counters = []
        for jobtype, events in sorted(self.events.items()):
            mine = [
                state_of(e.job.dt_ms, e.job.lock, now_ms) for e in self.entries.values() if e.job.jobtype == jobtype
            ]
            row = TypeCounters(
                jobtype,
                waiting=mine.count(JobState.WAITING),
                deferred=mine.count(JobState.DEFERRED),
                running=mine.count(JobState.RUNNING) + mine.count(JobState.LAPSED),
                blocked=mine.count(JobState.PAUSED),
                ok=events.get(Code.OK, 0),
                failed=events.get(Code.FAILED, 0),
                retry=events.get(Code.RETRY, 0),
                error=events.get(Code.ERROR, 0),
                abandoned=events.get(Code.ABANDONED, 0),
                cancelled=events.get(Code.CANCELLED, 0),
                paused=jobtype in self.paused,
            )
            if any(row[1:]):
                counters.append(row)
        return counters

    def get_usage(self, tenant: str) -> Usage:
        mine = [e for e in self.entries.values() if tenant_of(e.job.jobtype) == tenant]
        size_bytes = sum(len(e.job.data) for e in mine)
        outcomes = [e.outcome for e in mine if e.outcome is not None]
        size_bytes += sum(len(o.log) + len(o.result or b"") for o in outcomes)
        return Usage(len(mine), size_bytes, 0)

    def set_type_paused(self, tenant: str, jobtype: str, *, paused: bool) -> bool:
        is_changed = paused != (jobtype in self.paused)
        self.events.setdefault(jobtype, {})
        (self.paused.add if paused else self.paused.discard)(jobtype)
        return is_changed

"""A store in memory, as plain as possible: what the state machine holds every back end against.

It scans where a store has an index and counts where a store has a counter, so it shares none of their mistakes. Jobs
only; single-threaded; no limits on sizes.
"""

import copy
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from store.base import (
    AddReport,
    Archive,
    Code,
    CreateReport,
    Creation,
    Discard,
    ExpireReport,
    Finish,
    Job,
    JobChange,
    JobState,
    Lease,
    MakingEnd,
    NewJob,
    Outcome,
    RateDomain,
    Rearm,
    Release,
    ReleaseReport,
    RenewReport,
    Retry,
    Timing,
    state_of,
    with_attempt,
)
from store.errors import Conflict, InvalidValue, NotFound, StoreError
from store.names import DONE_LOCK, DONE_OFFSET_MS, PAUSED_LOCK
from store.rate_rules import grown
from store.values.jobs import lost
from tests.support.counted_model import CountedModel
from tests.support.model_entry import Entry
from vocabulary.names import tenant_of

CANCELLED = Outcome(Code.CANCELLED, 499, 0)
ABANDONED = Outcome(Code.ABANDONED, 504, 0)


class StoreModel(CountedModel):
    def __init__(self) -> None:
        super().__init__()
        self.heads: dict[str, int] = {}
        self.rates: dict[tuple[str, str], tuple[RateDomain, float, int]] = {}

    def _of(self, tenant: str, job_id: str) -> Entry:
        entry = self.entries.get(job_id)
        if entry is None or tenant_of(entry.job.jobtype) != tenant:
            raise NotFound(job_id)
        return entry

    def add_jobs(self, jobs: Sequence[NewJob], *, now_ms: int) -> AddReport:
        fresh = [job for n, job in enumerate(jobs) if job.id not in self.entries | {j.id: 0 for j in jobs[:n]}]
        for new in fresh:
            self._add(new)
        return AddReport(len(fresh), len(jobs) - len(fresh))

    def _add(self, new: NewJob) -> Entry:
        seq = None
        if new.indexed:
            seq = self.heads[new.jobtype] = self.heads.get(new.jobtype, 0) + 1
        job = Job(
            new.id, new.jobtype, new.data, new.dt_ms, "", 0, 0, new.priority, new.dt_ms, new.create_ms,
            new.domain, new.options, new.retry_after_ms, seq, new.repeat, new.unique, new.parent,
        )  # fmt: skip
        self.events.setdefault(new.jobtype, {})
        self.entries[new.id] = Entry(job)
        return self.entries[new.id]

    def create_jobs(self, creations: Sequence[Creation], *, now_ms: int) -> list[CreateReport]:
        ((new, keeps),) = creations
        return [self.create_job(new, keeps, now_ms=now_ms)]

    def create_job(self, new: NewJob, keeps: AbstractSet[str] = frozenset(), *, now_ms: int) -> CreateReport:
        if new.parent == new.id:
            raise InvalidValue(new.parent)
        if new.id in self.entries:
            return CreateReport(new.id, created=False, state=self.state(new.id, now_ms))
        for entry in self.entries.values():
            same_name = new.unique and entry.job.unique == new.unique and entry.job.jobtype == new.jobtype
            if same_name and entry.live:
                self._say_again(entry, new, keeps, now_ms)
                return CreateReport(entry.job.id, created=False, state=self.state(entry.job.id, now_ms))
        parent = None
        if new.parent:
            parent = self._of(tenant_of(new.jobtype), new.parent)
            if parent.queued or not parent.live:
                raise Conflict(new.parent)
        child = self._add(new)
        if parent is not None:
            parent.pending.add(new.id)
            parent.set(children=parent.job.children + 1)
            if parent.running:
                child.held = True
                child.set(lock=PAUSED_LOCK)
        return CreateReport(new.id, created=True, state=self.state(new.id, now_ms))

    def _say_again(self, entry: Entry, new: NewJob, keeps: AbstractSet[str], now_ms: int) -> None:
        wanted = {"data": new.data, "repeat": new.repeat, "priority": new.priority}
        wanted = {name: value for name, value in wanted.items() if name not in keeps}
        changed = {name for name, value in wanted.items() if getattr(entry.job, name) != value}
        if entry.job.parent != new.parent or entry.schedule.ending_ms > now_ms:
            raise Conflict(new.unique)
        if entry.running:
            if not new.repeat or changed:
                raise Conflict(new.unique)
            return
        if "repeat" in changed and new.repeat and "due" not in keeps:
            entry.change(JobChange(dt_ms=new.dt_ms, timing=Timing.ANEW), now_ms)
        entry.set(**wanted)

    def state(self, job_id: str, now_ms: int) -> JobState:
        job = self.entries[job_id].job
        return state_of(job.dt_ms, job.lock, now_ms)

    def set_rate_domain(self, limit: RateDomain, *, now_ms: int) -> bool:
        key, tokens, updated = (limit.tenant, limit.domain), float(limit.burst), now_ms
        old = self.rates.get(key)
        if old is not None:
            tokens, updated = min(tokens, self._tokens(key, now_ms)), max(updated, old[2])
        self.rates[key] = (limit, tokens, updated)
        return old is None or old[0] != limit

    def _tokens(self, key: tuple[str, str], now_ms: int) -> float:
        limit, tokens, updated = self.rates[key]
        return grown(tokens, updated, rate_per_s=limit.rate_per_s, burst=limit.burst, now_ms=now_ms)

    def claim_jobs(
        self, jobtype: str, limit: int, *, owner: str, lease_ms: int, now_ms: int, domain: str = ""
    ) -> list[Job]:
        if jobtype in self.paused:
            return []
        due = [e for e in self.entries.values() if e.queued and e.job.jobtype == jobtype and e.job.due_ms <= now_ms]
        due.sort(key=lambda e: (-e.job.priority, e.job.due_ms, e.job.id))
        taken: list[Job] = []
        for entry in due:
            key = (tenant_of(jobtype), entry.job.domain or domain)
            if len(taken) == limit:
                break
            if key in self.rates:
                tokens = self._tokens(key, now_ms)
                if tokens < 1.0:
                    continue
                self.rates[key] = (self.rates[key][0], tokens - 1.0, max(now_ms, self.rates[key][2]))
            job = entry.job
            lease = now_ms + (job.retry_after_ms or lease_ms)
            entry.set(lock=owner, dt_ms=lease, token=job.token + 1, attempts=job.attempts + 1)
            entry.claimed_ms = now_ms
            taken.append(entry.job)
        return taken

    def add_running_jobs(self, owner: str, jobs: Sequence[NewJob], *, lease_ms: int, now_ms: int) -> AddReport:
        new, report = {job.id for job in jobs} - self.entries.keys(), self.add_jobs(jobs, now_ms=now_ms)
        for job_id in new:
            self.entries[job_id].set(lock=owner, dt_ms=now_ms + lease_ms, token=1, attempts=1)
            self.entries[job_id].claimed_ms = now_ms
        return report

    def add_ended_jobs(
        self, owner: str, jobs: Sequence[NewJob], releases: Sequence[Release], *, now_ms: int
    ) -> ReleaseReport:
        self.add_running_jobs(owner, jobs, lease_ms=1, now_ms=now_ms)
        return self.release_jobs(owner, releases, now_ms=now_ms)

    def _owned(self, owner: str, lease: Lease | Release) -> Entry | None:
        entry = self.entries.get(lease.id)
        if entry is None or entry.job.lock != owner or entry.job.token != lease.token:
            return None
        return entry

    def renew_locks(self, owner: str, leases: Sequence[Lease], *, lease_ms: int, now_ms: int) -> RenewReport:
        renewed, fixed, stale = 0, [], []
        for lease in leases:
            entry = self._owned(owner, lease)
            if entry is None:
                stale.append(lease.id)
            elif entry.job.retry_after_ms is not None:
                fixed.append(lease.id)
            else:
                entry.set(dt_ms=now_ms + lease_ms)
                renewed += 1
        return RenewReport(renewed, tuple(fixed), tuple(stale))

    def release_jobs(self, owner: str, releases: Sequence[Release], *, now_ms: int) -> ReleaseReport:
        stale, paused = [], []
        discarded = {release.id for release in releases if isinstance(release, Discard)}
        releases = [Archive(*release) if isinstance(release, Discard) else release for release in releases]
        owned = [(release, self._owned(owner, release)) for release in releases]
        archived: list[tuple[Entry, Outcome]] = []
        rearmed: list[tuple[Entry, Outcome]] = []
        for release, entry in owned:
            if entry is None:
                stale.append(release.id)
                continue
            if isinstance(release, Retry | Rearm) and release.data is not None:
                entry.set(data=release.data)
            if isinstance(release, Archive | Finish | Rearm) and entry.pending and release.outcome.code == Code.OK:
                if isinstance(release, Finish):
                    entry.set(data=release.data)
                self._block(entry, release.outcome, now_ms)
                paused.append(release.id)
            elif isinstance(release, Archive | Finish):
                archived.append((entry, release.outcome))
            elif isinstance(release, Retry):
                self._count(entry, release.outcome)
                entry.history = with_attempt(entry.history, entry.job.attempts, release.outcome, owner)
                entry.outcome, entry.done_ms = release.outcome, now_ms
                entry.set(begun_ms=entry.job.window_ms, planned_ms=entry.job.scheduled_ms)
                entry.queue(release.dt_ms)
            elif isinstance(release, Rearm):
                self._count(entry, release.outcome)
                entry.outcome, entry.done_ms = release.outcome, now_ms
                entry.follow_round(release.outcome, owner, release.dt_ms)
                rearmed.append((entry, release.outcome))
            else:
                entry.give_back()
        for entry, outcome in archived:
            if entry.job.repeat:
                entry.end_round(outcome, owner)
            self._end(entry, outcome, now_ms)
        for entry, outcome in rearmed:
            self._leave_round(entry, outcome, now_ms)
        discards = [entry for release, entry in owned if entry is not None and release.id in discarded]
        self._remove([entry for entry in discards if entry.discard()])
        return ReleaseReport(len(releases) - len(stale), tuple(stale), tuple(paused))

    def release_with_jobs(self, owner: str, ends: Sequence[MakingEnd], *, now_ms: int) -> ReleaseReport:
        new_jobs = [new for end in ends for new, _ in end.new_jobs]
        if {new.id for new in new_jobs} & {new.parent for new in new_jobs}:
            raise InvalidValue("a parent is created in the same call")
        ids = {end.release.id for end in ends}
        if any(new.parent in ids - {end.release.id} for end in ends for new, _ in end.new_jobs):
            raise InvalidValue("a parent ends in the same call")
        before = copy.deepcopy(self.__dict__)
        owned = [end for end in ends if self._owned(owner, end.release)]
        try:
            for new, keeps in [made for end in owned for made in end.new_jobs]:
                self.create_job(new, keeps, now_ms=now_ms)
        except StoreError:
            self.__dict__ = before
            raise
        return self.release_jobs(owner, [end.release for end in ends], now_ms=now_ms)

    def _block(self, entry: Entry, outcome: Outcome, now_ms: int) -> None:
        entry.outcome, entry.done_ms = outcome, now_ms
        entry.pause(now_ms, attempts=0, begun_ms=None, planned_ms=entry.job.scheduled_ms)
        for child in self._children(entry):
            if child.held:
                child.let_in(now_ms)

    def _children(self, entry: Entry) -> list[Entry]:
        """Those that are there. One that was removed may have come again as the child of another."""
        return [child for _, child in sorted(self.entries.items()) if child.job.parent == entry.job.id]

    def _count(self, entry: Entry, outcome: Outcome) -> None:
        events = self.events[entry.job.jobtype]
        events[outcome.code] = events.get(outcome.code, 0) + 1

    def _leave_round(self, entry: Entry, outcome: Outcome, now_ms: int) -> None:
        self._cancel_held(entry, outcome, now_ms)
        if entry.pending and outcome.code != Code.OK:  # replayed children, which its next round waits for
            entry.pause(now_ms, entry.job.due_ms)

    def _end_unrun(self, entry: Entry, ending: Outcome, now_ms: int) -> None:
        if entry.job.repeat:
            entry.end_round(ending, "")
        self._end(entry, entry.ended_with(ending), now_ms)

    def _drop_extra_round(self, entry: Entry, now_ms: int) -> None:
        entry.outcome, entry.done_ms = entry.ended_with(ABANDONED), now_ms
        self._count(entry, ABANDONED)
        entry.follow_round(ABANDONED, "", 0)
        self._leave_round(entry, ABANDONED, now_ms)

    def _end(self, entry: Entry, outcome: Outcome, now_ms: int) -> None:
        self._count(entry, outcome)
        entry.outcome, entry.done_ms, entry.held, entry.on_hold = outcome, now_ms, False, False
        entry.set(lock=DONE_LOCK, dt_ms=now_ms + DONE_OFFSET_MS)
        parent = self.entries.get(entry.job.parent)
        if parent is not None and not entry.settled:
            parent.pending.discard(entry.job.id)
            if parent.job.lock == PAUSED_LOCK and not parent.held and not parent.pending:
                parent.wake(now_ms)
        entry.settled = True
        self._cancel_held(entry, outcome, now_ms)

    def _cancel_held(self, entry: Entry, outcome: Outcome, now_ms: int) -> None:
        if outcome.code != Code.OK:
            for child in self._children(entry):
                is_at_rest = child.live and not child.running and not child.settled
                if child.held or (outcome.code == Code.CANCELLED and is_at_rest):
                    self._end_unrun(child, CANCELLED, now_ms)

    def expire_locks(self, *, now_ms: int, owner: str | None = None) -> int:
        running = [e for e in self.entries.values() if e.running]
        lapsed = [e for e in running if (e.job.dt_ms <= now_ms if owner is None else e.job.lock == owner)]
        for entry in lapsed:
            run = lost(entry.claimed_ms, now_ms, is_fixed=entry.job.retry_after_ms is not None)
            entry.history = with_attempt(entry.history, entry.job.attempts, run, entry.job.lock)
            entry.queue(entry.job.due_ms)
        return len(lapsed)

    def expire_jobs(self, *, now_ms: int, done_before_ms: int, waiting_before_ms: int, **rare: Any) -> ExpireReport:
        failed_before_ms, jobtype = rare.get("failed_before_ms"), rare.get("jobtype")
        failed_ms = done_before_ms if failed_before_ms is None else failed_before_ms
        bad = {Code.FAILED, Code.ABANDONED}
        mine = [e for e in self.entries.values() if jobtype in {None, e.job.jobtype}]
        ended = [e for e in mine if e.is_over_for(self.entries.get(e.job.parent))]
        old = [e for e in ended if e.done_ms < (failed_ms if e.outcome and e.outcome.code in bad else done_before_ms)]
        waiting = [e for e in mine if e.queued and e.waits_since_ms < waiting_before_ms]
        waiting = [e for e in waiting if not e.job.repeat or e.schedule.regular_ms is not None]
        self._remove(old)
        for entry in waiting:
            if entry.job.repeat:
                self._drop_extra_round(entry, now_ms)
            else:
                self._end_unrun(entry, ABANDONED, now_ms)
        return ExpireReport(len(old), len(waiting), more=False)

    def _remove(self, entries: Sequence[Entry]) -> int:
        for entry in entries:
            del self.entries[entry.job.id]
        return len(entries)

    def cancel_job(self, tenant: str, job_id: str, *, now_ms: int, running: bool = False) -> None:
        entry = self._of(tenant, job_id)
        if not entry.live and entry.outcome is not None and entry.outcome.code == Code.CANCELLED:
            return
        if not entry.live or (entry.running and not running):
            raise Conflict(job_id)
        self._end_unrun(entry, CANCELLED, now_ms)

    def replay_jobs(
        self, tenant: str, job_ids: Sequence[str], *, dt_ms: int, now_ms: int, data: bytes | None = None
    ) -> tuple[str, ...]:
        replayed = []
        for job_id in job_ids:
            entry = self.entries.get(job_id)
            if entry is None or tenant_of(entry.job.jobtype) != tenant or entry.live:
                continue
            name = (entry.job.jobtype, entry.job.unique)
            if name[1] and any(e.live and (e.job.jobtype, e.job.unique) == name for e in self.entries.values()):
                continue
            entry.start_anew(dt_ms, None if entry.job.parent in replayed else self.entries.get(entry.job.parent))
            if data is not None:
                entry.set(data=data)
            if entry.outcome is not None:
                entry.outcome = entry.outcome._replace(result=None)
            replayed.append(job_id)
        return tuple(replayed)

    def move_job(
        self,
        tenant: str,
        job_id: str,
        jobtype: str,
        *,
        dt_ms: int,
        now_ms: int,
        data: bytes | None = None,
        token: int | None = None,
    ) -> None:
        entry = self._of(tenant, job_id)
        is_wrong = entry.running if token is None else not entry.running or entry.job.token != token
        if is_wrong or entry.job.lock == PAUSED_LOCK or entry.job.unique or entry.job.seq is not None:
            raise Conflict(job_id)
        if not entry.live and entry.outcome is not None:
            entry.outcome = entry.outcome._replace(result=None)
        entry.start_anew(dt_ms, self.entries.get(entry.job.parent))
        entry.set(jobtype=jobtype, data=entry.job.data if data is None else data)
        self.events.setdefault(jobtype, {})

    def delete_jobs(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> int:
        found = [self.entries[i] for i in set(job_ids) & self.entries.keys()]
        return self._remove([e for e in found if tenant_of(e.job.jobtype) == tenant and not e.live])

    def update_job(self, tenant: str, job_id: str, change: JobChange, *, now_ms: int) -> JobState:
        entry = self._of(tenant, job_id)
        stale = change.token is not None and (not entry.running or entry.job.token != change.token)
        moves = any(value is not None for value in (change.dt_ms, change.repeat, change.priority))
        repeats = change.repeat or change.pause or change.timing is Timing.EXTRA
        if not entry.live or stale or (entry.running and (change.at_rest or moves)):
            raise Conflict(job_id)
        if repeats and not entry.job.repeat:
            raise Conflict(job_id)
        entry.change(change, now_ms)
        fields = {"data": change.data, "repeat": change.repeat, "priority": change.priority}
        entry.set(**{name: value for name, value in fields.items() if value is not None})
        return self.state(job_id, now_ms)

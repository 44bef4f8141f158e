"""What workers say of the jobs that they hold: renewals, outcomes, jobs given back. Each item gets its own verdict.

Ensures: an outcome is recorded on condition of its token, by the same path that outcomes of our own contexts take
(outcomes.py, outbox.py), and the verdict is given after it was. A late one changes nothing and is counted; it makes no
new jobs either, because the lease is renewed before they are written. An end that is recorded and reported again, by a
worker that did not hear the answer, gets the same verdict: here, as long as it is among the recent ones, and otherwise,
on another daemon or after a restart, if the store tells. It does not of a job of which nothing is kept or that was
removed (unknown), nor of one that was handed out again, or that was to be tried again and was cancelled (late).
Another end of the same delivery is late, also while the first is on its way to the store.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Final
from weakref import WeakValueDictionary

from functory.errors import NotReadyYet
from functory.execution.afterwards import NOTHING_MORE, Afterwards, kept, passed_on
from functory.execution.endings import Ending, Recorded
from functory.execution.outbox import Outbox
from functory.execution.outcomes import releases_or_refusals
from functory.loops.shared import Shared
from functory.workers.claims import Claims
from functory.workers.held_jobs import Held
from functory.workers.recent_verdicts import RecentVerdicts
from functory.workers.values import OWNER, Answer, Delivery, Report, Verdict
from runner.limits import ContextLimits
from runner.new_jobs import NewJobs
from runner.outcome import EXTERNAL, TIMED_OUT, Stopped, held_bytes, leaves_nothing, name_of, too_big
from scheduler.retry import RetryPolicy
from store.base import Job, Lease, Outcome, Release, ReleaseReport, Unclaim

_WITHIN_S: Final = 15.0
"""An outcome that is not recorded by then is kept and tried again; the worker is told to ask once more."""
_LEAST_LEASE_MS: Final = 30_000
_STEP: Final = 500
"""Jobs that end in one go because they are overdue."""
_LIMITS: Final = ContextLimits()


class Reports:
    def __init__(self, shared: Shared, outbox: Outbox, claims: Claims, worked: Callable[[str, str, int], None]) -> None:
        """worked: a worker of a tenant has ended so many jobs."""
        self._store = shared.store
        self._clock = shared.clock
        self._outbox = outbox
        self._claims = claims
        self._worked = worked
        self._held = claims.held
        self._found: WeakValueDictionary[tuple[str, int], Held] = WeakValueDictionary()
        """What requests are about, also where the store had to be read: two at once share what becomes of it."""
        self._endings: dict[tuple[str, int], Held] = {}
        """On their way to the store."""
        self._recent = RecentVerdicts()
        self.late = 0
        """Renewals, reports and jobs given back whose delivery was over."""
        outbox.when_recorded(self._recorded)
        outbox.when_released(self._released)

    async def renew(self, tenant: str, deliveries: Sequence[Delivery], lease_ms: int | None) -> list[Verdict]:
        """lease_ms None: as long as it was before. Raises StoreUnavailable."""
        now_ms = self._clock.now_ms()
        found = [await self._find(tenant, delivery) for delivery in deliveries]
        by_length: defaultdict[tuple[int, int], list[Lease]] = defaultdict(list)
        verdicts: dict[Lease, Verdict] = {}
        for held in found:
            if isinstance(held, Verdict):
                continue
            lease = Lease(held.job.id, held.job.token)
            left_ms = None if held.timeout_ms is None else held.claimed_ms + held.timeout_ms - now_ms
            length_ms = lease_ms or held.lease_ms
            if left_ms is not None and left_ms <= 0:
                text = f"held for {(now_ms - held.claimed_ms) / 1000:g} s, longer than its type allows"
                verdicts[lease] = Verdict(lease.id, Answer.TIMED_OUT, held.until_ms, message=text)
            else:
                is_last = left_ms is not None and left_ms <= length_ms
                length_ms = length_ms if left_ms is None else min(length_ms, left_ms)
                by_length[length_ms, self._claims.beyond_ms if is_last else 0].append(lease)
        for (length_ms, beyond_ms), leases in by_length.items():
            verdicts |= await self._renew(tenant, leases, length_ms, beyond_ms)
        return self._counted(
            it if isinstance(it, Verdict) else verdicts[Lease(it.job.id, it.job.token)] for it in found
        )

    async def report(
        self, tenant: str, reports: Sequence[Report], begun: Callable[[], None] | None = None
    ) -> list[Verdict]:
        """begun: called when the outcomes are on their way to the store. Raises StoreUnavailable, NotReadyYet when the
        store does not take them now."""
        await self._outbox.room(tenant)
        endings: list[tuple[Held, Report]] = []
        found: list[Held | Verdict] = []
        for report in reports:
            if report.exitcode is None:
                held = await self._find_alive(tenant, report.delivery)
            else:
                held = await self._find_ending(tenant, report)
            found.append(held)
            if isinstance(held, Held):
                self._held.say(held, report.log, report.progress, is_over=report.exitcode is not None)
                if report.exitcode is not None and held.ending is None:
                    endings.append((held, report))
        late = await self._not_ours_to_extend(tenant, endings)
        # The same report may have come twice, and the other be on its way by now.
        self._put([(held, report) for held, report in endings if held.job.id not in late and held.ending is None])
        if begun is not None:
            begun()
        await self._all_recorded([it.ending for it in found if isinstance(it, Held) and it.ending is not None])
        verdicts = [
            _late(it.job.id) if isinstance(it, Held) and _is_late(it, report, late) else self._ended(it)
            for it, report in zip(found, reports, strict=True)
        ]
        return self._counted(
            [await self._recorded_before(tenant, *pair) for pair in zip(reports, verdicts, strict=True)]
        )

    async def give_back(self, tenant: str, deliveries: Sequence[Delivery]) -> list[Verdict]:
        """Jobs that were not worked on: they wait again at their old place, and the attempt does not count."""
        found = [await self._find(tenant, delivery) for delivery in deliveries]
        self._let_go([it for it in found if isinstance(it, Held) and it.ending is None])
        await self._all_recorded([it.ending for it in found if isinstance(it, Held) and it.ending is not None])
        return self._counted(
            _late(it.job.id) if isinstance(it, Held) and it.reported is not None else self._ended(it) for it in found
        )

    def let_go(self, some: Iterable[Held]) -> None:
        """The same of jobs that are known here, for a loop that others share: it waits for nothing."""
        found = [self._found.setdefault((held.job.id, held.job.token), held) for held in some]
        self._let_go([held for held in found if held.ending is None])

    async def end_overdue(self) -> None:
        """What was taken here and is held for longer than its type allows ends with an error, as a run that takes too
        long: it is tried again after a pause. For a loop that others share: it waits for no tenant's outcomes. Raises
        StoreUnavailable."""
        while overdue := self._held.overdue(self._clock.now_ms(), _STEP):
            by_tenant: defaultdict[str, list[tuple[Held, Report]]] = defaultdict(list)
            for held in overdue:
                text = f"held for longer than {(held.timeout_ms or 0) / 1000:g} s, the timeout_s of its type"
                delivery = Delivery(held.job.id, held.job.token)
                by_tenant[held.tenant].append((held, Report(delivery, TIMED_OUT, text.encode())))
            for tenant, endings in by_tenant.items():
                late = await self._not_ours_to_extend(tenant, endings)
                over = [(held, end) for held, end in endings if held.ending is None and held.job.id not in late]
                self._put(over)
            await asyncio.sleep(0)

    def end_tenant(self, tenant: str) -> None:
        """It was deleted."""
        self._recent.drop_tenant(tenant)

    # Steps

    async def _find(self, tenant: str, delivery: Delivery) -> Held | Verdict:
        """The job, if that delivery is the one that a worker holds."""
        held = self._held.find(tenant, delivery.id)
        if held is None or delivery.token not in (None, held.job.token):
            held = await self._claims.read(tenant, delivery.id) or self._ending_now(tenant, delivery)
        if held is not None and delivery.token in (None, held.job.token):
            return self._found.setdefault((held.job.id, held.job.token), held)
        if held is not None or await self._claims.exists(tenant, delivery.id):
            return _late(delivery.id)
        return Verdict(delivery.id, Answer.UNKNOWN, message=f"there is no job {delivery.id}")

    def _ending_now(self, tenant: str, delivery: Delivery) -> Held | None:
        """One whose end another request has brought that is not answered yet."""
        held = None if delivery.token is None else self._found.get((delivery.id, delivery.token))
        return held if held is not None and held.ending is not None and held.tenant == tenant else None

    async def _find_ending(self, tenant: str, report: Report) -> Held | Verdict:
        """As `_find`, or the verdict of that end if it was recorded here."""
        known = self._recent.find(tenant, report.delivery, report.exitcode)
        return known or await self._find(tenant, report.delivery)

    async def _recorded_before(self, tenant: str, report: Report, verdict: Verdict) -> Verdict:
        """A delivery may be over because this end is recorded, on another daemon or long ago: that is its verdict.
        If it ended otherwise, it is late."""
        if verdict.answer is not Answer.LATE or report.exitcode is None:
            return verdict
        outcome = await self._claims.outcome_of(tenant, report)
        return verdict if outcome is None else _verdict_of(verdict.id, outcome)

    async def _find_alive(self, tenant: str, delivery: Delivery) -> Held | Verdict:
        """As `_find`, where no write follows that would be refused: after its lease the store says whether the delivery
        is over."""
        held = self._held.find(tenant, delivery.id)
        is_lapsed = held is not None and held.ending is None and held.until_ms <= self._clock.now_ms()
        if is_lapsed and await self._claims.read(tenant, delivery.id) is None:
            self._held.drop([delivery])
        return await self._find(tenant, delivery)

    async def _renew(
        self, tenant: str, leases: Sequence[Lease], length_ms: int, beyond_ms: int = 0
    ) -> dict[Lease, Verdict]:
        now_ms = self._clock.now_ms()
        report = await self._store.renew_locks(OWNER, leases, lease_ms=length_ms + beyond_ms, now_ms=now_ms)
        stale, fixed = set(report.stale), set(report.fixed)
        verdicts: dict[Lease, Verdict] = {}
        for lease in leases:
            held = self._held.find(tenant, lease.id)
            if lease.id in stale:
                self._held.drop([lease])
                verdicts[lease] = _late(lease.id)
                continue
            if held is not None and lease.id not in fixed:
                held.until_ms = now_ms + length_ms
            answer = Answer.FIXED if lease.id in fixed else Answer.OK
            until_ms = held.until_ms if held is not None else now_ms + length_ms
            verdicts[lease] = Verdict(lease.id, answer, until_ms)
        return verdicts

    async def _not_ours_to_extend(self, tenant: str, endings: Sequence[tuple[Held, Report]]) -> set[str]:
        """Of the jobs that make new ones, those that are not held any more. New jobs are written before the outcome, so
        this is asked before them."""
        makers = [held for held, report in endings if report.new_jobs or held.afterwards is not NOTHING_MORE]
        leases = [Lease(held.job.id, held.job.token) for held in makers]
        if not leases:
            return set()
        verdicts = await self._renew(tenant, leases, _LEAST_LEASE_MS)
        return {lease.id for lease, verdict in verdicts.items() if verdict.answer is Answer.LATE}

    def _put(self, endings: Sequence[tuple[Held, Report]]) -> None:
        now_ms = self._clock.now_ms()
        sizes: dict[tuple[str, int], int] = {}
        follows: dict[tuple[str, int], Afterwards] = {}
        out: list[Ending] = []
        for (version, retry, in_window), some in groupby(endings, _decided_alike):
            these: list[tuple[Held, Stopped]] = []
            for held, report in some:
                held.reported = report.exitcode
                these.append((held, _stopped(held, report, now_ms)))
            jobs = [_counted_job(held, one) for held, one in these]
            ends = [one for _, one in these]
            releases = releases_or_refusals(jobs, ends, version, retry, now_ms, random.random, in_window=in_window)
            for (held, one), job, release in zip(these, jobs, releases, strict=True):
                end = kept(held.afterwards, job, _since_claim(held, release), one.new_jobs)
                out.append((job, end, passed_on(held.afterwards, job, end, one.new_jobs)))
                if left_bytes := held_bytes(one):
                    sizes[job.id, job.token] = left_bytes
                if held.afterwards.on_failure:
                    follows[job.id, job.token] = held.afterwards
                self._begin_ending(held)
        self._outbox.put(out, sizes, follows)

    def _let_go(self, mine: Sequence[Held]) -> None:
        for held in mine:
            self._begin_ending(held)
        self._outbox.put([(held.job, Unclaim(held.job.id, held.job.token), ()) for held in mine])

    def _begin_ending(self, held: Held) -> None:
        held.ending = asyncio.get_running_loop().create_future()
        self._endings[held.job.id, held.job.token] = held

    async def _all_recorded(self, endings: Sequence["asyncio.Future[Verdict]"]) -> None:
        if endings:
            _, late = await asyncio.wait(endings, timeout=_WITHIN_S)
            if late:
                raise NotReadyYet(
                    "the store does not take outcomes now: they are kept, and will be recorded; report them again to"
                    " hear what became of them",
                    retry_after_s=2.0,
                )

    def _recorded(self, endings: Sequence[Recorded], report: ReleaseReport) -> None:
        late = set(report.stale)
        worked: Counter[tuple[str, str]] = Counter()
        for job, release, _ in endings:
            held = self._endings.get((job.id, job.token))
            if held is None or held.ending is None or held.ending.done():
                continue
            verdict = _late(job.id) if job.id in late else _verdict(job.id, release)
            held.ending.set_result(verdict)
            if isinstance(release, Unclaim) or verdict.answer is Answer.LATE:
                continue
            self._recent.add(held.tenant, Delivery(job.id, job.token), held.reported, verdict)
            if held.worker and verdict.answer is Answer.OK:
                worked[held.tenant, held.worker] += 1
        for (tenant, worker), count in worked.items():
            self._worked(tenant, worker, count)

    def _released(self, endings: Sequence[Ending]) -> None:
        """After they were recorded, and also if they could not be in any form."""
        over: list[tuple[str, int]] = []
        for job, _, _ in endings:
            held = self._endings.pop((job.id, job.token), None)
            if held is not None and held.ending is not None:
                over.append((job.id, job.token))
                if not held.ending.done():
                    text = "what it left behind cannot be recorded: its lease will lapse"
                    held.ending.set_result(Verdict(job.id, Answer.REFUSED, message=text))
        self._held.drop(over)

    @staticmethod
    def _ended(found: Held | Verdict) -> Verdict:
        """What became of it, once all that was reported is recorded; of a job that goes on, until when it is held."""
        if isinstance(found, Verdict):
            return found
        if found.ending is None:
            return Verdict(found.job.id, Answer.OK, found.until_ms)
        return found.ending.result()

    def _counted(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        counted = list(verdicts)
        self.late += sum(verdict.answer is Answer.LATE for verdict in counted)
        return counted


def _is_late(held: Held, report: Report, late: Collection[str]) -> bool:
    """Its delivery was over, or ends otherwise: given back, or with another exit code."""
    if held.ending is None:
        return held.job.id in late
    return report.exitcode not in (None, held.reported)


def _stopped(held: Held, report: Report, now_ms: int) -> Stopped:
    """The same value that the end of a run in one of our contexts is, within the same limits."""
    assert report.exitcode is not None
    made = NewJobs(_LIMITS)
    made.add_all(report.new_jobs)
    is_bare = leaves_nothing(report.exitcode)
    stopped = Stopped(
        held.job.id,
        name_of(report.exitcode),
        report.exitcode,
        report.result,
        held.log.kept,
        float(max(now_ms - held.claimed_ms, 0)),
        () if is_bare else made.taken(),
        None,
        report.retry_after_ms,
        None if is_bare else report.carried,
        held.log.dropped,
    )
    if made.too_much:
        return too_big(stopped, made.too_much)
    if len(report.result) > _LIMITS.result_bytes:
        return too_big(stopped, f"reported a result of more than {_LIMITS.result_bytes} bytes")
    if len(report.carried or b"") > _LIMITS.new_job_bytes:
        return too_big(stopped, f"carried more than {_LIMITS.new_job_bytes} bytes on")
    return stopped


def _since_claim(held: Held, release: Release) -> Release:
    """Begun when it was claimed, also by the clock of another daemon or before ours was set back: by that moment an end
    that is reported again is recognised."""
    if isinstance(release, Unclaim) or release.outcome.started_ms >= held.claimed_ms:
        return release
    return release._replace(outcome=release.outcome._replace(started_ms=held.claimed_ms))


def _decided_alike(ending: tuple[Held, Report]) -> tuple[int, RetryPolicy, bool]:
    """What endings have in common that are decided together."""
    held, report = ending
    return held.version, held.retry, report.in_window


def _counted_job(held: Held, stopped: Stopped) -> Job:
    """What a job carries on counts by how much it grew."""
    return held.job if stopped.carried is None else held.job._replace(data=bytes(held.data_bytes))


def _verdict(job_id: str, release: Release) -> Verdict:
    if isinstance(release, Unclaim):
        return Verdict(job_id, Answer.OK)
    return _verdict_of(job_id, release.outcome)


def _verdict_of(job_id: str, outcome: Outcome) -> Verdict:
    if outcome.isolation != EXTERNAL:  # a refusal of the outbox stands in its place
        return Verdict(
            job_id, Answer.REFUSED, code=outcome.code.value, message=outcome.message, status=outcome.exitcode
        )
    return Verdict(job_id, Answer.OK, code=outcome.code.value, message=outcome.message)


def _late(job_id: str) -> Verdict:
    return Verdict(job_id, Answer.LATE, message="this delivery is over: the lease lapsed, or the job was ended")

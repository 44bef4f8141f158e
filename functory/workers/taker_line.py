"""The workers of one tenant that wait for jobs, first come first served, and the types that may have some.

One task serves the line, and only while somebody stands in it. So a job that arrives costs one claim, however many
workers wait, and workers that ask at the same time share one. Among the types that a worker takes, the one with the
highest priority goes first, and among those the one whose jobs have used the least time.

Ensures: every taker gets one answer: jobs, or none when its time is up. Jobs for a taker that has left meanwhile are
given back. Names are compared in slices that count the work, so a tenant with many types and patterns
holds up nobody else.
"""

import asyncio
import heapq
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from functory.errors import QuotaExceeded
from functory.intake.job_options import DEFAULT_PRIORITY
from functory.loops.slices import Slices
from functory.loops.token_alarm import TokenAlarm
from functory.workers.claims import MOST_BYTES, Claims
from functory.workers.external_types import ExternalTypes
from functory.workers.takers import LOOK_COST, MOST_REMEMBERED, Group, Taker
from functory.workers.values import Order, Taken
from scheduler import SchedulerOptions
from scheduler.claim_pause import REST_S, pause_s
from scheduler.costs import Costs
from scheduler.fair_queue import FairQueue
from store.errors import StoreUnavailable
from vocabulary.names import is_type

log = logging.getLogger("functory.workers")

MOST_TAKERS: Final = 5000
"""Of one tenant that wait at once."""
MOST_GROUPS: Final = 100
"""Different lists with patterns among them: every arrival is compared with each."""
MOST_PLAIN: Final = 1000
"""Different lists of types without a pattern: an arrival is looked up in each."""
_BURST_S: Final = 0.1
_STEP: Final = 500
_STEP_AFTER_S: Final = 10.0
"""A type of which nothing was taken for so long counts as more urgent, by a step of priorities."""


class TakerLine:
    def __init__(self, tenant: str, claims: Claims, types: ExternalTypes) -> None:
        self._tenant = tenant
        self._claims = claims
        self._types = types
        self._groups: dict[tuple[str, ...], Group] = {}
        self._deadlines: list[tuple[float, int, Taker]] = []
        self._asked = 0
        """Takers that have ever come."""
        self._ready: dict[str, float] = {}
        """Types that may have waiting jobs, and since when."""
        self._listed: Mapping[str, int] = {}
        """Types that have some, as the last look at the store said, with the highest priority of what waits."""
        self._in_vain: dict[str, float] = {}
        """Types of which jobs wait and claims find nothing, and since when."""
        self._resting: set[str] = set()
        """Types that are tried again in a moment."""
        self._unranked: set[str] = set()
        """Types that got jobs since then."""
        self._slices = Slices()
        """Of the one task that serves: what it does for one group counts for the next."""
        self._turns = FairQueue(1, _BURST_S)
        self._costs = Costs(SchedulerOptions(slots=1, remembered_types=MOST_REMEMBERED))
        self._tokens = TokenAlarm(self._try_again)
        self._news = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self.is_open = True
        """False: jobs are kept back, and takers wait."""
        self.coming = 0
        """Takers that are about to stand in it."""
        self.waiting = 0
        """Takers that wait now."""
        self.used_s = asyncio.get_running_loop().time()

    @property
    def has_takers(self) -> bool:
        return self._serving is not None

    async def take(self, order: Order) -> list[Taken]:
        """Jobs as soon as there are some; none when the time is up. Raises QuotaExceeded, StoreUnavailable."""
        if self.waiting >= MOST_TAKERS:
            raise QuotaExceeded(
                f"{MOST_TAKERS} workers of this tenant wait for jobs already: use fewer, with a larger limit each",
                detail={"quota": "waiting_workers", "limit": MOST_TAKERS},
            )
        if order.wait_s and order.patterns not in self._groups:
            self._check_groups(order.patterns)
        loop = asyncio.get_running_loop()
        taker = Taker(order, self._asked)
        self._asked += 1
        self._groups.setdefault(order.patterns, Group(order.patterns)).takers.append(taker)
        heapq.heappush(self._deadlines, (taker.deadline_s, taker.number, taker))
        self.used_s = loop.time()
        self._news.set()
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve(), name=f"takers of {self._tenant}")
        timer = loop.call_at(taker.deadline_s, self._news.set)
        self.waiting += 1
        try:
            return await taker.future
        except asyncio.CancelledError:
            if taker.future.done() and not taker.future.cancelled() and taker.future.exception() is None:
                self._claims.give_back(taker.future.result())  # they came in the same moment
            raise
        finally:
            self.waiting -= 1
            timer.cancel()
            self.used_s = loop.time()

    def _check_groups(self, patterns: tuple[str, ...]) -> None:
        """Whether one more list can be waited for. Raises QuotaExceeded."""
        is_plain = all(map(is_type, patterns))
        most = MOST_PLAIN if is_plain else MOST_GROUPS
        if sum(group.is_plain is is_plain for group in self._groups.values()) >= most:
            what = "types" if is_plain else "patterns"
            raise QuotaExceeded(
                f"workers of this tenant wait with {most} different lists of {what}: let them ask for the same",
                detail={"quota": f"waiting_{what}", "limit": most},
            )

    def mark(self, jobtypes: Iterable[str]) -> None:
        """Jobs of these types may wait."""
        now_s = asyncio.get_running_loop().time()
        for jobtype in jobtypes:
            self._ready.setdefault(jobtype, now_s)
            self._unranked.add(jobtype)
        self._news.set()

    def set_listed(self, priorities: Mapping[str, int]) -> None:
        """These are the types with waiting jobs, as the store says."""
        self._listed = priorities
        self._in_vain = {jobtype: since_s for jobtype, since_s in self._in_vain.items() if jobtype in priorities}
        self.mark(priorities)
        self._unranked.clear()

    @property
    def is_unsure(self) -> bool:
        """Whether a look at the store may show that another type goes first."""
        return bool(self._unranked) and len(self._ready) > 1

    def learn(self, jobtype: str, count: int, runner_s: float) -> None:
        """So many jobs of the type took so long together."""
        self._costs.learn(jobtype, count, runner_s)

    def dismiss(self, name: str) -> None:
        """The worker of this name waits no longer."""
        for _, _, taker in self._deadlines:
            if taker.order.worker.name == name:
                taker.answer([])
        self._news.set()

    def serve_again(self) -> None:
        """Something has changed that may have held jobs back."""
        self._news.set()

    def close(self) -> None:
        """Nobody gets anything any more."""
        self.is_open = False
        self._answer_all()
        self._news.set()

    async def settle(self) -> None:
        """Wait until a claim that is under way is over, and given back if nobody is there for it."""
        if self._serving is not None:
            await asyncio.wait([self._serving])

    def _answer_all(self) -> None:
        for _, _, taker in self._deadlines:
            taker.answer([])

    async def _serve(self) -> None:
        try:
            while self._deadlines:
                self._news.clear()
                newcomer = self._asked
                await self._pass()
                self._end_overdue(newcomer)
                if self._deadlines:
                    await self._news.wait()
        except Exception:
            # A defect of ours, which must not take the daemon down. The takers ask again.
            log.exception("workers.line_failed", extra={"tenant": self._tenant})
            self._answer_all()
            self._deadlines.clear()
            self._groups.clear()
        finally:
            self._serving = None

    async def _pass(self) -> None:
        """Hand out what can be handed out now, to who came first among those who can have it."""
        heads = []
        for patterns, group in list(self._groups.items()):
            await self._slices.spend(LOOK_COST)
            if group.drop_gone():
                heads.append((group.takers[0].number, patterns))
            else:
                del self._groups[patterns]
        heapq.heapify(heads)
        while heads and self.is_open and self._ready:
            _, patterns = heapq.heappop(heads)
            group = self._groups[patterns]
            await self._slices.spend(LOOK_COST)
            if not group.drop_gone():
                del self._groups[patterns]
                continue
            takers = group.first(before=heads[0][0] if heads else math.inf)
            try:
                jobs = await self._fill(takers, group)
            except StoreUnavailable as error:
                for taker in takers:
                    taker.fail(error)
                return
            self._hand_out(takers, jobs)
            if not group.drop_gone():
                del self._groups[patterns]
            elif jobs:  # a group that got nothing gets nothing until there is news
                heapq.heappush(heads, (group.takers[0].number, patterns))

    def _hand_out(self, takers: Iterable[Taker], jobs: list[Taken]) -> None:
        """To each in turn as many as it wants; what is meant for one who has left meanwhile goes back."""
        for taker in takers:
            mine, jobs = jobs[: taker.order.limit], jobs[taker.order.limit :]
            if taker.future.done():
                self._claims.give_back(mine)
            elif mine:
                self._claims.assign(mine, taker.order.worker.name)
                taker.answer(mine)

    async def _fill(self, takers: Sequence[Taker], group: Group) -> list[Taken]:
        """As many jobs as the takers want together, of all types that they take: they share claims."""
        order = takers[0].order._replace(limit=sum(taker.order.limit for taker in takers))
        kinds = await self._types.of(self._tenant)
        taken: list[Taken] = []
        size_bytes = 0
        for jobtype in await self._candidates(group, kinds):
            left = order.limit - len(taken)
            if left <= 0 or size_bytes >= MOST_BYTES or all(taker.future.done() for taker in takers):
                break
            since_s = self._ready.pop(jobtype, 0.0)  # before the claim: what is added meanwhile marks it again
            try:
                claimed = await self._claims.claim(jobtype, kinds[jobtype], order, left)
            except StoreUnavailable:
                self._ready[jobtype] = since_s
                if taken:
                    break
                raise
            if claimed.jobs:
                self._in_vain.pop(jobtype, None)
            if claimed.token_s is not None:
                in_vain_s = self._in_vain_s(jobtype, claimed.token_s)
                self._tokens.set(jobtype, pause_s(in_vain_s, claimed.token_s, has_cap=claimed.has_cap))
            elif claimed.may_have_more:
                self._ready[jobtype] = asyncio.get_running_loop().time() if claimed.jobs else since_s
            elif jobtype in self._listed:
                self._try_later(jobtype)
            if claimed.jobs:
                taken += claimed.jobs
                size_bytes += sum(len(job.data) for job, _ in claimed.jobs)
                cost_s = self._costs.expect_s(jobtype, len(claimed.jobs))
                self._turns.serve(self._turns.rival(jobtype), cost_s)
        return taken

    async def _candidates(self, group: Group, kinds: Iterable[str]) -> list[str]:
        found: list[str] = []
        known = frozenset(kinds)
        for jobtype in group.named(self._tenant, self._ready) if group.is_plain else list(self._ready):
            if jobtype not in known:
                self._ready.pop(jobtype, None)  # it has a handler of another kind, or none
                await self._slices.spend(LOOK_COST)
            elif await group.takes(jobtype, self._slices):
                found.append(jobtype)
        if len(self._turns) > MOST_REMEMBERED:
            self._turns.clear()
        return sorted(found, key=self._rank)

    def _rank(self, jobtype: str) -> tuple[float, float]:
        """What is most urgent goes first. What waits becomes more urgent by and by, so nothing waits for ever."""
        now_s = asyncio.get_running_loop().time()
        steps = (now_s - self._ready.get(jobtype, now_s)) // _STEP_AFTER_S
        urgency = self._listed.get(jobtype, DEFAULT_PRIORITY) + _STEP * steps
        return -urgency, self._turns.rival(jobtype).turn_s

    def _try_later(self, jobtype: str) -> None:
        """Jobs of it wait, and a claim found none."""
        in_vain_s = self._in_vain_s(jobtype)
        if jobtype not in self._resting:
            self._resting.add(jobtype)
            asyncio.get_running_loop().call_later(min(pause_s(in_vain_s), REST_S), self._once_more, jobtype)

    def _once_more(self, jobtype: str) -> None:
        self._resting.discard(jobtype)
        if jobtype in self._listed:
            self._try_again([jobtype])

    def _try_again(self, jobtypes: Iterable[str]) -> None:
        """For the next taker, if none waits now."""
        now_s = asyncio.get_running_loop().time()
        for jobtype in jobtypes:
            self._ready.setdefault(jobtype, now_s)
        self._news.set()

    def _in_vain_s(self, jobtype: str, token_s: float = 0.0) -> float:
        """For how long claims of it have found nothing, although a token was to be there. This one found nothing, or
        not enough."""
        now_s = asyncio.get_running_loop().time()
        return max(0.0, now_s - self._in_vain.setdefault(jobtype, now_s + max(token_s, 0.0)))

    def _end_overdue(self, newcomer: int) -> None:
        """Answer those whose time is up, after they were tried: those who came before `newcomer`."""
        now_s = asyncio.get_running_loop().time()
        while self._deadlines:
            deadline_s, number, taker = self._deadlines[0]
            if not taker.future.done() and (deadline_s > now_s or number >= newcomer):
                break
            heapq.heappop(self._deadlines)
            taker.answer([])
        if len(self._deadlines) > 2 * sum(len(group.takers) for group in self._groups.values()) + 100:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].future.done()]
            heapq.heapify(self._deadlines)

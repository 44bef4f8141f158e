"""Workers that die, stand still for longer than their lease, say everything twice, and talk to any daemon: nothing is
lost, and no job ends twice."""

import random
from collections import defaultdict
from pathlib import Path

import pytest

from functory.operations import workers as operations
from functory.workers.values import Answer, Report, Taken
from store.base import Code
from tests.support.clocks import FakeClock
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, Shop, held, open_shop

pytestmark = pytest.mark.slow

JOBS = 150
LEASE_MS = 5000


class Storm:
    def __init__(self, shops: list[Shop], clock: FakeClock, seed: int) -> None:
        self.shops = shops
        self.clock = clock
        self.dice = random.Random(seed)
        self.ended: defaultdict[str, set[int]] = defaultdict(set)
        """Jobs whose end was told to be recorded, with the deliveries of which it was: one may be told of it again."""
        self.late = 0
        self.standing: list[Taken] = []
        """In the hands of workers that will go on some time."""

    @property
    def shop(self) -> Shop:
        return self.dice.choice(self.shops)

    async def end(self, job: Taken) -> None:
        (verdict,) = await operations.report(self.shop.service, ACME, [Report(held(job), 200, job.job.data)])
        assert verdict.answer in (Answer.OK, Answer.LATE), verdict
        if verdict.answer is Answer.OK:
            self.ended[job.job.id].add(job.job.token)
        self.late += verdict.answer is Answer.LATE

    async def work(self, job: Taken) -> None:
        match self.dice.choice(("end", "end", "die", "stand", "twice", "retry", "return", "renew")):
            case "end":
                await self.end(job)
            case "stand":
                self.standing.append(job)
            case "twice":
                await self.end(job)
                before = {job_id: set(tokens) for job_id, tokens in self.ended.items()}
                await self.end(job)
                assert self.ended == before, "an end that is told again is the same one, and a late one stays late"
            case "retry":
                await self.shop.report(job, 100, retry_after_ms=0)
                await self.end(job)
            case "return":
                await operations.give_back(self.shop.service, ACME, [held(job)])
                await self.end(job)
            case "renew":
                assert await self.shop.renew(job) == [Answer.OK]
                self.standing.append(job)
            case _:
                pass  # it dies with the job in its hands

    async def step(self) -> None:
        for job in await self.shop.take(limit=self.dice.randint(1, 20), lease_ms=LEASE_MS):
            await self.work(job)
        while self.standing and self.dice.random() < 0.4:
            await self.end(self.standing.pop(self.dice.randrange(len(self.standing))))
        self.clock.advance(self.dice.choice((0.1, 1.0, 6.0)))
        await self.shop.daemon.upkeep.expire_leases()


@pytest.mark.parametrize("back_end", back_end_params())
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_lost_and_nothing_ends_twice(back_end: str, seed: int, tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        BACK_ENDS[back_end](tmp_path) as url,
        open_shop(tmp_path / "a", clock, store=url) as first,
        open_shop(tmp_path / "b", clock, is_new=False, store=url) as second,
    ):
        storm = Storm([first, second], clock, seed)
        await first.serve("resize", options={"max_attempts": 1000, "retry_base_ms": 1})
        ids = await first.post(*map(str, range(JOBS)))
        while len(storm.ended) < JOBS:
            await storm.step()
        for job in storm.standing:
            await storm.end(job)
        assert {job_id: len(tokens) for job_id, tokens in storm.ended.items()} == dict.fromkeys(ids, 1), (
            "each ended once"
        )
        assert storm.late > 20, "there was a storm"
        (row,) = await first.daemon.store.get_counters("acme", now_ms=clock.now_ms())
        assert (row.ok, row.waiting, row.deferred, row.running) == (JOBS, 0, 0, 0)
        for number, job_id in enumerate(ids):
            outcome = await first.end(job_id)
            assert (outcome.code, outcome.result) == (Code.OK, str(number).encode())
        counted = sum(shop.gauge("worker_reports_late_total") for shop in storm.shops)
        assert counted == storm.late

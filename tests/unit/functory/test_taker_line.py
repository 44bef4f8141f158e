"""When a line of workers claims again what it could not have: soon after a job, and less and less in vain."""

from types import SimpleNamespace
from typing import Any

import pytest

from functory.workers import taker_line
from functory.workers.claims import Claimed
from functory.workers.taker_line import TakerLine
from functory.workers.values import Order, Taken
from store.base import Job

TYPE = "acme-mail"
JOB = Job("j1", TYPE, b"", 0, "workers", 1, 1, 500, 0, 0)
ORDER = Order("acme", ("mail",), wait_s=30.0)


class Bucket:
    """In place of claims: a token for each third one."""

    def __init__(self) -> None:
        self.asked = 0

    async def claim(self, jobtype: str, version: int, order: Order, limit: int) -> Claimed:
        self.asked += 1
        has_token = self.asked % 3 == 0
        return Claimed([Taken(JOB, 1000)] if has_token else [], may_have_more=has_token)

    def assign(self, jobs: list[Taken], worker: str) -> None:
        pass


async def test_the_pause_of_a_type_without_a_token_begins_anew_after_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    in_vain_s: list[float] = []

    def pause_s(since_s: float) -> float:
        in_vain_s.append(since_s)
        return 0.0

    async def kinds(tenant: str) -> dict[str, int]:
        return {TYPE: 1}

    monkeypatch.setattr(taker_line, "pause_s", pause_s)
    claims: Any = Bucket()
    types: Any = SimpleNamespace(of=kinds)
    line = TakerLine("acme", claims, types)
    line.set_listed({TYPE: 500})
    for _ in range(4):
        assert len(await line.take(ORDER)) == 1
    assert len(in_vain_s) == 8, "two claims in vain before each job"
    assert in_vain_s[0::2] == [0.0] * 4
    assert all(since_s > 0.0 for since_s in in_vain_s[1::2])

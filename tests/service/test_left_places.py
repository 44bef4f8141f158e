"""A question that leaves its place leaves it to the jobs of its tenant, of workers and of daemons."""

from pathlib import Path
from typing import Any

import pytest

from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from tests.support.polling import until
from tests.support.service import register
from tests.support.workers import open_shop

SELDOM = "60s"
"""Longer than anything here waits: nothing is found by a poll."""


async def test_workers_that_wait_at_the_cap_are_told_when_a_question_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(tmp_path, poll=SELDOM) as shop:
        told: list[str] = []
        monkeypatch.setattr(shop.daemon.workers._handout, "has_room", told.append)
        await update_tenant(shop.service, "test", "acme", limits=TenantLimits(max_running=1))
        async with shop.daemon.trial_runs.questions.of("acme-chain"):
            assert told == []
        assert told == ["acme"]


async def test_a_job_that_waits_at_the_cap_starts_when_a_question_leaves_without_a_look_at_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_shop(tmp_path, poll=SELDOM) as shop:
        executor, done = shop.daemon.executor, []
        await update_tenant(shop.service, "test", "acme", limits=TenantLimits(max_running=1))
        await register(shop.daemon, "acme-block", "return payload")
        async with shop.daemon.trial_runs.questions.of("acme-chain"):
            (job_id,) = await shop.post("1", type_name="block")

            async def is_seen() -> bool:
                return executor.ahead("acme-block") == 1 and not executor._wants_look

            await until(is_seen)
            look, start = executor._outlook.look, executor._slots.start

            async def looked(*args: Any) -> Any:
                done.append("look")
                return await look(*args)

            def started(*args: Any) -> None:
                done.append("start")
                start(*args)

            monkeypatch.setattr(executor._outlook, "look", looked)
            monkeypatch.setattr(executor._slots, "start", started)
        await shop.end(job_id)
        assert done[0] == "start"

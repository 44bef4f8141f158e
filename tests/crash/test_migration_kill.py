"""SIGKILL of a migration, at random places and over and over: what arrives in the end is what was sent."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.errors import Conflict
from store.url import open_store
from tests.support.jobs import T0, TENANT
from tests.support.migration_worker import LATER
from tests.support.store_audit import check_states
from tests.support.store_content import fill, read_content
from tests.support.stores import BACK_ENDS

pytestmark = pytest.mark.slow

SEED = 20261115
KILLS = 3
JOBS = 300


@pytest.fixture(params=[("sqlite", "mongodb"), ("mongodb", "sqlite")], ids="-".join)
async def urls(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    first, second = request.param
    async with BACK_ENDS[first](tmp_path) as source, BACK_ENDS[second](tmp_path) as target:
        yield source, target


async def run_worker(source: str, target: str, lines: int | None) -> int:
    """Start one, and kill it after so many lines of its output: the work goes on meanwhile, so the kill falls anywhere
    in the next steps. Answers its exit status."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.migration_worker", source, target, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    heard = 0
    while await worker.stdout.readline():
        heard += 1
        if heard == lines:
            worker.kill()
    return await worker.wait()


async def test_a_migration_that_is_killed_again_and_again_loses_nothing(urls: tuple[str, str]) -> None:
    source_url, target_url = urls
    dice = random.Random(SEED)
    async with open_store(source_url) as source:
        await fill(source, many=JOBS)
        before = await read_content(source)
    killed = 0
    for _ in range(KILLS):
        killed += await run_worker(source_url, target_url, dice.randrange(1, 14)) != 0
        async with open_store(target_url) as target:
            with pytest.raises(Conflict, match="the source"):
                await target.reserve_sysid(info="", lease_ms=1, now_ms=T0)
    assert killed == KILLS
    assert await run_worker(source_url, target_url, None) == 0
    async with open_store(source_url) as source, open_store(target_url) as target:
        assert await read_content(target) == before == await read_content(source)
        await check_states(target, TENANT, LATER)

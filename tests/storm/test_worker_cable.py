"""A worker whose network drops every packet, both ways, for longer than its leases: it lives in a network namespace,
and the link to it goes down. Nobody is told, as with a pulled cable. `test_worker_storm.py` has it among its faults."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.storm.worker import HOLD, JOB_TYPE
from tests.storm.worker_place import Place
from tests.support.network import need_namespaces
from tests.support.polling import until
from tests.support.stores import BACK_ENDS

JOBS: Final = 40

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_jobs_behind_a_pulled_cable_are_taken_over_and_end_once(tmp_path: Path) -> None:
    need_namespaces()
    async with AsyncExitStack() as stack:
        place = Place(tmp_path, await stack.enter_async_context(BACK_ENDS["sqlite"](tmp_path)))
        await place.start(stack)
        assert place.cable is not None
        await place.far_worker(HOLD)
        async with place.client() as client:
            await client.add_jobs(JOB_TYPE, [f"{number}" for number in range(JOBS)])

        async def all_are(word: str) -> bool:
            return len((await place.said())[word]) == JOBS

        await until(lambda: all_are("run"))
        assert await place.late_reports() == 0
        await place.cable.cut()
        await place.near_worker()
        await until(lambda: all_are("done"))
        # The far worker knows by its own clock that it lost them. Its reports are under way, or about to be.
        await place.cable.mend()
        await until(lambda: all_are("late"))
        assert await place.has_ended(JOBS), "a late report changed something"
        await place.check(JOBS)

"""Questions to sources wait for their turn: many consumers of a tenant, and a tenant that may run little at once."""

import asyncio
from pathlib import Path

from functory.daemon.service import service_of
from functory.execution.tenant_book import Allowance
from functory.execution.tenant_places import TenantPlaces
from functory.operations import consumers
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from handlers.model import Handler
from scheduler import Candidate, Policy, SchedulerOptions
from scheduler.table import make_policy
from tests.support.consumers import put, standing_at
from tests.support.polling import until
from tests.support.service import ended, register, running_daemon

HELD_SOURCE = """
import json, os, time
with open(FOLDER + '/asked', 'a') as log:
    log.write('x')
while not os.path.exists(FOLDER + '/go'):
    time.sleep(0.01)
return 3 if json.loads(payload)['ask'] == 'head' else payload
"""
SLOW_SOURCE = """
import json, time
with open(FOLDER + '/asked', 'a') as log:
    log.write('x')
time.sleep(0.4)
return 0 if json.loads(payload)['ask'] == 'head' else payload
"""
SOURCE = "import json\nreturn 3 if json.loads(payload)['ask'] == 'head' else payload"
FLOOD = """
import os, time
time.sleep(0.01)
if not os.path.exists(FOLDER + '/go'):
    ctx.enqueue('flood', 'x')
"""


async def test_many_consumers_are_served_in_turn_and_a_try_by_hand_is_not_refused(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(5)]
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-chain", HELD_SOURCE.replace("FOLDER", repr(str(tmp_path))), returns="value")
        for name in names:
            await register(daemon, f"acme-{name}", "return payload")
            await put(service, name, name, pull="chain")

        async def two_are_asked() -> bool:
            asked = tmp_path / "asked"
            return await asyncio.to_thread(lambda: asked.exists() and asked.stat().st_size >= 2)

        await until(two_are_asked)
        assert (await daemon.trial_runs.invoke("acme-try", Handler("python", "return 1"), b"x")).code == "ok"
        standings = [await consumers.get_consumer(service, "acme", name) for name in names]
        assert [standing.note.trouble for standing in standings] == [""] * 5, "who waits for a turn has no trouble"
        await asyncio.to_thread((tmp_path / "go").touch)
        for name in names:
            assert not (await standing_at(service, 3, name)).note.trouble


async def test_jobs_of_a_tenant_that_may_run_little_do_not_keep_its_source_from_being_asked(tmp_path: Path) -> None:
    async with running_daemon(tmp_path / "data", poll="1s") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits(max_running=1))
        await register(daemon, "acme-chain", SOURCE, returns="value")
        await register(daemon, "acme-block", "return payload")
        await register(daemon, "acme-flood", FLOOD.replace("FOLDER", repr(str(tmp_path))))
        await daemon.intake.write("acme-flood", [b"x"] * 50)
        await put(service, pull="chain")
        try:
            standing = await standing_at(service, 3)
        finally:
            await asyncio.to_thread((tmp_path / "go").touch)
        assert not standing.note.trouble


async def test_the_only_place_of_a_tenant_is_not_kept_by_questions(tmp_path: Path) -> None:
    """Its consumers have more questions than there is time for."""
    async with running_daemon(tmp_path / "data", poll="1s") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits(max_running=1))
        await register(daemon, "acme-chain", SLOW_SOURCE.replace("FOLDER", repr(str(tmp_path))), returns="value")
        await register(daemon, "acme-plain", "return payload")
        for name in (names := [f"c{n}" for n in range(5)]):
            await register(daemon, f"acme-{name}", "return payload")
            await put(service, name, name, pull="chain")

        async def all_were_asked() -> bool:
            asked = tmp_path / "asked"
            return await asyncio.to_thread(lambda: asked.exists() and asked.stat().st_size > len(names))

        await until(all_were_asked)
        (job_id,) = await daemon.intake.write("acme-plain", [b"x"])
        record = await ended(daemon, job_id)
        assert record.outcome
        assert record.outcome.code == "ok"


def _places(cap: int | None, held: int) -> tuple[Policy, TenantPlaces]:
    """Of a tenant that has jobs waiting, and so many running."""
    policy = make_policy("deficit", SchedulerOptions(slots=8), lambda: 0.5)
    policy.set_waiting([Candidate("acme-x", 100)])
    for _ in range(held):
        policy.jobs_started("acme-x", 1)
    return policy, TenantPlaces(policy, lambda _: Allowance(max_running=cap), 2)


class _Questions:
    """So many questions at once. Each has its place until it is told to end."""

    def __init__(self, places: TenantPlaces, count: int) -> None:
        self.ends = [asyncio.Event() for _ in range(count)]
        self.placed: list[int] = []
        self.tasks = [asyncio.create_task(self._ask(places, n)) for n in range(count)]

    async def _ask(self, places: TenantPlaces, number: int) -> None:
        async with places.of("acme-chain"):
            self.placed.append(number)
            await self.ends[number].wait()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_question_reserves_the_next_place_and_those_after_it_none() -> None:
    policy, places = _places(cap=4, held=4)
    asked = _Questions(places, 3)
    await _settle()
    assert (asked.placed, policy.board.running("acme")) == ([], 5), "the first has reserved one"
    policy.jobs_stopped("acme-x", 1, 0.1)
    await _settle()
    assert (asked.placed, policy.board.running("acme")) == ([0], 5)
    asked.ends[0].set()
    await _settle()
    assert (asked.placed, policy.board.running("acme")) == ([0, 1], 5), "first come, first served"
    for task in asked.tasks:
        task.cancel()
    await asyncio.gather(*asked.tasks, return_exceptions=True)
    assert policy.board.running("acme") == 3, "who gives up leaves its place, and its reservation"
    assert not places._lines


async def test_questions_leave_jobs_half_of_the_places() -> None:
    policy, places = _places(cap=3, held=0)
    left: list[str] = []
    places.on_left = left.append
    asked = _Questions(places, 2)
    await _settle()
    assert (asked.placed, policy.board.running("acme")) == ([0], 1), "the second has reserved nothing"
    asked.ends[0].set()
    await _settle()
    assert (asked.placed, left) == ([0, 1], ["acme"]), "jobs may start: who starts them is told"
    asked.ends[1].set()
    await asyncio.gather(*asked.tasks)
    assert policy.board.running("acme") == 0


async def test_a_job_has_the_only_place_between_two_questions() -> None:
    policy, places = _places(cap=1, held=0)
    places.on_left = lambda _: policy.jobs_started("acme-x", 1)
    asked = _Questions(places, 2)
    await _settle()
    asked.ends[0].set()
    await _settle()
    assert asked.placed == [0], "a job has it now"
    policy.jobs_stopped("acme-x", 1, 0.1)
    await _settle()
    assert asked.placed == [0, 1]
    asked.ends[1].set()
    await asyncio.gather(*asked.tasks)


async def test_without_a_cap_two_questions_are_asked_at_once() -> None:
    _, places = _places(cap=None, held=8)
    asked = _Questions(places, 3)
    await _settle()
    assert asked.placed == [0, 1]
    for end in asked.ends:
        end.set()
    await asyncio.gather(*asked.tasks)
    assert asked.placed == [0, 1, 2]

"""Every query of the busy verbs reads an index that was made for it, by the server's own explanation.

The commands are those that the verbs really sent. The claim must also come out of the index in order, without a sort.
How much is read is counted in test_backlog.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from store.base import JobFilter, JobState
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_job, new_jobs
from tests.support.mongo_commands import CommandLog, without_session

pytestmark = pytest.mark.slow


async def explain(store: MongoStore, command: Mapping[str, Any]) -> dict[str, Any]:
    asked = {"explain": without_session(command), "verbosity": "queryPlanner"}
    answer = await store.collections.database.command(asked)
    return dict(answer)


def nodes(plan: object) -> Iterator[Mapping[str, Any]]:
    """All objects inside a plan."""
    if isinstance(plan, Mapping):
        yield plan
        for part in plan.values():
            yield from nodes(part)
    elif isinstance(plan, list):
        for part in plan:
            yield from nodes(part)


def indexes_of(plan: Mapping[str, Any]) -> set[str]:
    return {node[key] for node in nodes(plan) for key in ("indexName", "Index Name") if key in node}


def stages_of(plan: Mapping[str, Any]) -> set[str]:
    return {node[key] for node in nodes(plan) for key in ("stage", "Node Type") if key in node}


def of_jobs(log: CommandLog, verb: str) -> list[dict[str, Any]]:
    return [command for command in log.sent if command.get(verb) == "jobs"]


async def fill(store: MongoStore) -> None:
    jobs = [new_job(n, jobtype=f"{TENANT}-type{n % 20}", dt_ms=T0 + n % 100) for n in range(4000)]
    await store.add_jobs(jobs, now_ms=T0)
    await store.add_jobs(new_jobs(100, start=5000), now_ms=T0)


async def test_claim_reads_its_index_in_order(store: MongoStore, commands: CommandLog) -> None:
    await fill(store)
    commands.sent.clear()
    await claim(store, 10)
    (head,) = of_jobs(commands, "aggregate")
    only_jobs = [stage for stage in head["pipeline"] if "$unionWith" not in stage]
    plan = await explain(store, {**head, "pipeline": only_jobs})
    assert indexes_of(plan) >= {"claim"}
    assert not stages_of(plan) & {"COLLSCAN", "SORT", "Seq Scan", "Sort"}


async def test_upkeep_and_listings_read_theirs(store: MongoStore, commands: CommandLog) -> None:
    await fill(store)
    jobs = await claim(store, 50)
    await store.release_jobs(OWNER, [archive(job) for job in jobs[:20]], now_ms=T0)
    commands.sent.clear()
    await store.expire_locks(now_ms=T0 + 1)
    await store.expire_jobs(now_ms=T0, done_before_ms=T0 - 10, waiting_before_ms=T0 - 10)
    for state in JobState:
        await store.list_jobs(TENANT, JobFilter(state), now_ms=T0)
    finds = of_jobs(commands, "find")
    assert len(finds) > 8
    for command in finds:
        plan = await explain(store, command)
        assert indexes_of(plan), command
        assert not stages_of(plan) & {"COLLSCAN", "Seq Scan"}, command


async def test_waiting_types_come_from_an_index(store: MongoStore, commands: CommandLog) -> None:
    await fill(store)
    commands.sent.clear()
    assert len(await store.get_waiting_jobtypes(now_ms=T0 + 1000)) == 21
    for command in of_jobs(commands, "aggregate"):
        plan = await explain(store, command)
        assert indexes_of(plan), command
        assert not stages_of(plan) & {"COLLSCAN", "Seq Scan"}, command


async def test_a_deferred_job_that_came_due_leaves_the_index_of_deferred_ones(store: MongoStore) -> None:
    """Readers look there for what came due since: all of it would be read again by each of them."""
    await store.add_jobs([new_job(1, dt_ms=T0 + 1000), new_job(2, dt_ms=T0 + 9000)], now_ms=T0)
    await store.expire_locks(now_ms=T0 + 1000)
    assert await store.collections.jobs.count_documents({"d": True}) == 1
    (row,) = await store.get_counters(TENANT, now_ms=T0 + 1000)
    assert (row.waiting, row.deferred) == (1, 1)

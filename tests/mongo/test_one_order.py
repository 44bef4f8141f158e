"""Whoever changes many documents at once comes to them in the order of their ids: FerretDB keeps all of a command's
documents locked until its end, and two that go in different orders wait for each other, for seconds each time."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pytest
from pymongo.monitoring import CommandListener, CommandSucceededEvent

from store.base import Code, Content, Job, Lease, NewJob, RateDomain, Release, Unclaim
from store.mongo import MongoStore
from store.mongo.server.bulk import Group, update_found, update_groups
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim, new_jobs, retry
from tests.support.mongo_commands import CommandLog

pytestmark = pytest.mark.slow

TYPES: Final = [f"{TENANT}-type{number}" for number in range(6)]
KINDS: Final[Sequence[dict[str, str]]] = ({}, {"key": "ada"}, {"key": "bob"}, {"domain": "api"}, {"domain": "mail"})
EACH: Final = 4
NAMED_ONE_BY_ONE: Final = 2
"""Updates of a command from which an order is to be seen."""


def some_jobs() -> list[NewJob]:
    """Of each type as many of each kind."""
    places = [(jobtype, kind) for jobtype in TYPES for kind in KINDS]
    return [
        job
        for number, (jobtype, kind) in enumerate(places)
        for job in new_jobs(EACH, EACH * number, jobtype=jobtype, **kind)
    ]


def shuffled(dice: random.Random, some: Sequence[Any]) -> list[Any]:
    return dice.sample(some, len(some))


async def claimed(store: MongoStore) -> list[Job]:
    return [job for jobtype in TYPES for job in await claim(store, jobtype=jobtype)]


def ending(number: int, job: Job) -> Release:
    """Of four kinds in turn."""
    failed = retry(job, T0, Code.ERROR, fingerprint=f"crash {number % 3}", message="boom")
    kinds: list[Release] = [archive(job), failed, Unclaim(job.id, job.token), retry(job, T0 + LEASE_MS)]
    return kinds[number % len(kinds)]


def named(update: Mapping[str, Any]) -> Any:
    """What its condition says of the id; fails if nothing."""
    assert "_id" in update["q"], f"an update of whatever is found first: {update['q']}"
    return update["q"]["_id"]


def assert_in_order(command: Mapping[str, Any]) -> None:
    ids = [named(update) for update in command["updates"]]
    if len(ids) == 1:
        return
    assert not any(isinstance(each, dict) for each in ids), f"several groups in one command: {ids}"
    assert all(one <= other for one, other in pairwise(ids)), f"not in order: {command['update']} {ids}"


async def test_every_command_names_what_it_changes_in_order(store: MongoStore, commands: CommandLog) -> None:
    dice = random.Random(18)
    for domain in ("api", "mail"):
        await store.set_rate_domain(RateDomain(TENANT, domain, 1000.0, 1000), now_ms=T0)
    await store.add_jobs(shuffled(dice, some_jobs()), now_ms=T0)
    for now_ms in (T0, T0 + 10 * LEASE_MS, T0 + 20 * LEASE_MS):
        jobs = shuffled(dice, await claimed(store))
        assert len(jobs) > EACH * len(TYPES)
        leases = [Lease(job.id, job.token) for job in jobs]
        await store.renew_locks(OWNER, leases, lease_ms=LEASE_MS, now_ms=T0)
        await store.number_jobs(TENANT, [job.id for job in jobs])
        ends = [ending(number, job) for number, job in enumerate(jobs)]
        await store.release_jobs(OWNER, ends[: len(ends) // 2], now_ms=T0)
        await store.expire_locks(now_ms=now_ms)
    contents = [Content(TENANT, f"{number:064x}", T0, b"x") for number in range(9)]
    await store.put_contents(TENANT, shuffled(dice, contents))
    await store.set_rate_domain(RateDomain(TENANT, "api", 1.0, 1), now_ms=T0)
    updates = [command for command in commands.sent if "updates" in command]
    for command in updates:
        assert_in_order(command)
    together = {command["update"] for command in updates if len(command["updates"]) >= NAMED_ONE_BY_ONE}
    assert together >= {"jobs", "counters", "turns", "lanes", "types", "contents"}, together


async def test_what_is_found_by_another_condition_is_changed_by_its_ids(
    store: MongoStore, commands: CommandLog
) -> None:
    await store.add_jobs(some_jobs(), now_ms=T0)
    collection = store.collections.jobs
    commands.sent.clear()
    await update_found(collection, {"type": TYPES[0], "key": "ada"}, {"$set": {"mark": 1}})
    assert commands.names == ["find", "update"]
    (update,) = commands.sent[1]["updates"]
    assert update["q"]["type"] == TYPES[0], "it may have changed meanwhile"
    assert len(update["q"]["_id"]["$in"]) == EACH
    assert await collection.count_documents({"mark": 1}) == EACH


async def test_small_groups_share_a_command(store: MongoStore, commands: CommandLog) -> None:
    await store.add_jobs(some_jobs(), now_ms=T0)
    collection = store.collections.jobs
    ids = [job.id for job in some_jobs()]
    groups = [Group([each], {"token": 0}, {"$set": {"mark": number}}) for number, each in enumerate(ids[50:])]
    groups.insert(3, Group(ids[:50], {"token": 0}, {"$set": {"mark": -1}}))
    commands.sent.clear()
    done = await update_groups(collection, groups)
    assert commands.names == ["update", "update"]
    assert_in_order(commands.sent[1])
    assert (done.matched, done.modified) == (len(ids), len(ids))
    assert await collection.count_documents({"mark": -1}) == 50
    assert await collection.find_one({"_id": ids[-1], "mark": len(ids) - 51})
    gone = await update_groups(collection, [Group(ids, {"token": 9}, {"$set": {"mark": 0}})])
    assert (gone.matched, gone.modified) == (0, 0)


async def test_new_jobs_are_sent_in_order_and_told_of_in_that_of_the_caller(
    store: MongoStore, commands: CommandLog
) -> None:
    jobs = some_jobs()
    there = [jobs[5], jobs[17], jobs[40]]
    await store.add_jobs(there, now_ms=T0)
    commands.sent.clear()
    mixed = shuffled(random.Random(4), jobs)
    assert (await store.add_jobs(mixed, now_ms=T0)).added == len(jobs) - len(there)
    (insert,) = [command for command in commands.sent if "insert" in command and command["insert"] == "jobs"]
    sent = [document["_id"] for document in insert["documents"]]
    assert sent == sorted(sent)
    assert (await store.verify())["jobs"] == len(jobs)


class Refusals(CommandListener):
    """What a server says of single writes of a command, and otherwise succeeds."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def started(self, event: Any) -> None:
        pass

    def failed(self, event: Any) -> None:
        pass

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.said += [error["errmsg"] for error in event.reply.get("writeErrors", ())]


@pytest.mark.parametrize("seed", range(3))
async def test_two_daemons_that_change_the_same_jobs_are_not_in_each_others_way(mongo_url: str, seed: int) -> None:
    dice, refusals = random.Random(seed), Refusals()
    async with (
        MongoStore(mongo_url, listeners=[refusals]) as one,
        MongoStore(mongo_url, listeners=[refusals]) as other,
    ):
        await one.add_jobs(some_jobs(), now_ms=T0)
        jobs = await claimed(one)
        leases = [Lease(job.id, job.token) for job in jobs]

        async def work(store: MongoStore) -> None:
            ends = [ending(number, job) for number, job in enumerate(jobs)]
            await store.renew_locks(OWNER, shuffled(dice, leases), lease_ms=LEASE_MS, now_ms=T0)
            await store.release_jobs(OWNER, shuffled(dice, ends), now_ms=T0)
            await store.expire_locks(now_ms=T0 + 10 * LEASE_MS)
            await claimed(store)

        await asyncio.gather(*(work(store) for store in (one, other, one, other)))
    assert not [said for said in refusals.said if "deadlock" in said]

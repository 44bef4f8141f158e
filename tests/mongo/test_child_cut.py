"""A process dies while it adds a child, or while it removes one that never appeared: the parent counts the children
that there are, and waits for none in vain."""

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import urlsplit

import pytest

from store.base import Job, JobState, Lease, Store
from store.errors import StoreUnavailable
from store.mongo import MongoStore
from store.mongo.queue.relatives import join_parent
from store.mongo.server.core import Core
from store.mongo.server.ledger import LAPSE_MS
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, making, new_job
from tests.support.mongo_cut import CutProxy
from tests.support.races import ALL_PAIRS
from tests.support.store_audit import run_to_the_end

pytestmark = pytest.mark.slow

CHILDREN = "acme-child"
PARENT, CHILD, SIBLING, NAMED, NAMED_TOO = range(5)
LATER = T0 + 2 * LAPSE_MS
STRIDE = 1 if ALL_PAIRS else 5
"""Every command, or every fifth."""
Verb = Callable[[Job, Store], Awaitable[object]]


async def add(parent: Job, store: Store) -> None:
    await store.create_job(new_job(SIBLING, jobtype=CHILDREN, parent=parent.id, unique="u"), now_ms=T0)


async def make_sibling(parent: Job, store: Store) -> None:
    """A child ends, and has made a sibling. It was replayed, so it runs beside its parent."""
    for child in await claim(store, jobtype=CHILDREN):
        sibling = new_job(SIBLING, jobtype=CHILDREN, parent=parent.id)
        await store.release_with_jobs(OWNER, [making(archive(child), sibling)], now_ms=T0)


async def make_named_children(parent: Job, store: Store) -> None:
    """The second finds the first."""
    twins = [new_job(number, jobtype=CHILDREN, parent=parent.id, unique="u") for number in (NAMED, NAMED_TOO)]
    await store.release_with_jobs(OWNER, [making(archive(parent), *twins)], now_ms=T0)


async def running_parent(store: Store) -> Job:
    """Beside a child of it, which waits to run again."""
    await store.add_jobs([new_job(PARENT)], now_ms=T0)
    parent = await claim_one(store)
    await store.create_job(new_job(CHILD, jobtype=CHILDREN, parent=parent.id), now_ms=T0)
    await store.cancel_job(TENANT, job_id(CHILD), now_ms=T0)
    await store.replay_jobs(TENANT, [job_id(CHILD)], dt_ms=T0, now_ms=T0)
    return parent


async def is_cut(mongo_url: str, work: Callable[[Store], Awaitable[object]], cut_in: int, *, after: bool) -> bool:
    """Whether a process that does this died at that command."""
    parts = urlsplit(mongo_url)
    assert parts.port is not None
    async with CutProxy("127.0.0.1", parts.port, cut_at=None, after=after) as proxy:
        url = f"mongodb://127.0.0.1:{proxy.port}{parts.path}?serverSelectionTimeoutMS=150&directConnection=true"
        dying = MongoStore(url)
        await dying.open()
        proxy.cut_in(cut_in)
        with contextlib.suppress(StoreUnavailable):
            await work(dying)
        reached = proxy.is_cut()
        await dying.close()
    return reached


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("verb", [add, make_sibling, make_named_children])
async def test_a_parent_counts_the_children_that_there_are(mongo_url: str, verb: Verb, *, after: bool) -> None:
    """Also if the same is done again at once, which is tried every second time."""
    async with MongoStore(mongo_url) as store:
        cut_in, reached = 1 - STRIDE, True
        while reached:
            cut_in += STRIDE
            parent = await running_parent(store)
            reached = await is_cut(mongo_url, partial(verb, parent), cut_in, after=after)
            if cut_in % 2:
                await verb(parent, store)
            for _ in range(2):
                await store.expire_locks(now_ms=LATER)
            record = await store.get_job(TENANT, parent.id, now_ms=T0)
            children = (await store.list_children(TENANT, parent.id, now_ms=T0)).records
            pending = sum(child.state is not JobState.ARCHIVED for child in children)
            assert record is not None
            assert (record.children, record.pending_children) == (len(children), pending), f"cut at command {cut_in}"
            assert not await run_to_the_end(store, TENANT, LATER), f"cut at command {cut_in}"
            await store.delete_jobs(TENANT, [job_id(number) for number in range(5)], now_ms=T0)


async def die(*_: object) -> None:
    raise StoreUnavailable("died")


async def test_a_child_that_is_removed_by_halves_does_not_appear(
    mongo_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its creator was so slow that somebody else took it for a trace of a crash, and died at removing it."""
    async with MongoStore(mongo_url) as store, MongoStore(mongo_url) as other:
        parent = await running_parent(store)
        await store.renew_locks(OWNER, [Lease(parent.id, parent.token)], lease_ms=3 * LAPSE_MS, now_ms=T0)

        async def join_late(db: Core, parent_id: str, join: str) -> bool | None:
            monkeypatch.undo()
            runs = await join_parent(db, parent_id, join)
            with monkeypatch.context() as broken:
                broken.setattr("store.mongo.queue.create.wake_parent", die)
                with pytest.raises(StoreUnavailable):
                    await other.expire_locks(now_ms=LATER)
            return runs

        monkeypatch.setattr("store.mongo.queue.create.join_parent", join_late)
        await add(parent, store)
        record = await store.get_job(TENANT, parent.id, now_ms=T0)
        assert record is not None
        assert (record.children, record.pending_children) == (2, 2)
        assert not await run_to_the_end(store, TENANT, T0 + 3 * LAPSE_MS)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_parent_goes_on_whoever_dies_at_removing_its_child(
    mongo_url: str, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    async with MongoStore(mongo_url) as store:
        cut_in, reached = 1 - STRIDE, True
        while reached:
            cut_in += STRIDE
            await store.add_jobs([new_job(PARENT)], now_ms=T0)
            parent = await claim_one(store)
            with monkeypatch.context() as broken:
                broken.setattr("store.mongo.queue.create.apply", die)  # the child is counted, and has not appeared
                with pytest.raises(StoreUnavailable):
                    await add(parent, store)
            report = await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
            assert report.paused == (parent.id,)
            reached = await is_cut(mongo_url, lambda dying: dying.expire_locks(now_ms=LATER), cut_in, after=after)
            await store.expire_locks(now_ms=LATER + 2 * LAPSE_MS)
            assert not await run_to_the_end(store, TENANT, LATER + 2 * LAPSE_MS), f"cut at command {cut_in}"
            await store.delete_jobs(TENANT, [parent.id], now_ms=T0)

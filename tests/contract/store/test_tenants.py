"""Tenants, keys, audit, values written once, and the removal of a tenant with everything it has."""

import asyncio
from functools import partial
from typing import Any

import pytest

from store.base import ApiKey, AuditEvent, Job, JobFilter, JobState, NewHandler, RateDomain, Store, Tenant
from store.errors import Conflict, InvalidValue, NotFound
from store.values.scoreboard import DAY_MS
from tests.support.jobs import JOBTYPE, OWNER, T0, TENANT, archive, claim, new_job, new_jobs
from tests.support.turns import interleave, open_pair

ACME = Tenant(TENANT, T0, weight=3, limits='{"jobs": 10}')
KEY = ApiKey("k1", TENANT, b"\x00hash", ("submit", "read"), T0, T0 + 99, "ci")


async def test_tenants_are_created_changed_and_listed(store: Store) -> None:
    await store.create_tenant(ACME)
    await store.create_tenant(Tenant("abc", T0))
    with pytest.raises(Conflict):
        await store.create_tenant(ACME)
    assert await store.get_tenant(TENANT) == ACME
    assert await store.get_tenant("nobody") is None
    assert [t.name for t in await store.list_tenants()] == ["abc", TENANT]
    changed = await store.update_tenant(TENANT, weight=5, suspended=True)
    assert changed == ACME._replace(weight=5, suspended=True)
    assert await store.update_tenant(TENANT, limits="") == changed._replace(limits="")
    assert await store.get_tenant(TENANT) == changed._replace(limits="")
    with pytest.raises(NotFound):
        await store.update_tenant("nobody", weight=1)
    for bad in (ACME._replace(name="A"), ACME._replace(name="x-y"), ACME._replace(name="n", weight=0)):
        with pytest.raises(InvalidValue):
            await store.create_tenant(bad)


async def change(fields: dict[str, Any], store: Store) -> Tenant:
    return await store.update_tenant(TENANT, **fields)


async def test_two_changes_of_a_tenant_at_once_both_stay(store_url: str) -> None:
    async with open_pair(store_url) as pair:
        await pair.other.create_tenant(ACME)
        stop_at, was_stopped = 0, True
        while was_stopped:
            stop_at += 1
            limits = f'{{"jobs": {stop_at}}}'
            _, _, was_stopped = await interleave(
                pair,
                partial(change, {"limits": limits}),
                partial(change, {"weight": 10 + stop_at}),
                stop_at,
            )
            expected = ACME._replace(limits=limits, weight=10 + stop_at)
            assert await pair.other.get_tenant(TENANT) == expected, f"before step {stop_at}"


async def test_keys_are_found_by_id_and_belong_to_a_tenant(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.add_key(KEY)
    await store.create_tenant(ACME)
    operator = ApiKey("k0", "", b"h", (), T0)
    for key in (KEY, operator, KEY._replace(key_id="k2", created_ms=T0 - 1)):
        await store.add_key(key)
    with pytest.raises(Conflict):
        await store.add_key(KEY._replace(hash=b"other"))
    assert await store.get_key("k1") == KEY
    assert await store.get_key("unknown") is None
    assert [key.key_id for key in await store.list_keys(TENANT)] == ["k2", "k1"]
    assert await store.list_keys("") == [operator]
    rotated = await store.set_key_expiry(TENANT, "k1", T0 + 5)
    assert rotated == KEY._replace(expires_ms=T0 + 5)
    assert (await store.set_key_expiry(TENANT, "k1", None)).expires_ms is None
    with pytest.raises(NotFound):
        await store.set_key_expiry("other", "k1", T0)
    assert not await store.delete_key("other", "k1")
    assert await store.delete_key(TENANT, "k1")
    assert await store.get_key("k1") is None


async def test_the_audit_log_is_read_newest_first(store: Store) -> None:
    events = [AuditEvent(T0 + n, "op", f"did {n}", TENANT if n % 2 else "", "{}") for n in range(7)]
    for event in events:
        await store.append_audit(event)
    first = await store.list_audit(limit=4)
    await store.append_audit(AuditEvent(T0 + 99, "op", "later"))
    rest = await store.list_audit(limit=4, cursor=first.cursor)
    assert [*first.events, *rest.events] == events[::-1]
    assert rest.cursor is None
    assert [e.action for e in (await store.list_audit(tenant=TENANT)).events] == ["did 5", "did 3", "did 1"]
    assert await store.expire_records(now_ms=T0 + 99, audit_before_ms=T0 + 3) == 3
    assert len((await store.list_audit()).events) == 5
    with pytest.raises(InvalidValue):
        await store.list_audit(cursor="nonsense")


async def test_a_value_is_written_once(store: Store) -> None:
    async def put(value: bytes, now_ms: int = T0, tenant: str = TENANT) -> bytes:
        return await store.put_once(tenant, "key", value, expires_ms=now_ms + DAY_MS, now_ms=now_ms)

    assert await store.get_once(TENANT, "key", now_ms=T0) is None
    assert await put(b"one") == b"one"
    assert await put(b"two") == b"one"
    assert await store.get_once(TENANT, "key", now_ms=T0) == b"one"
    assert await store.get_once(TENANT, "key", now_ms=T0 + DAY_MS) is None
    assert await store.get_once("other", "key", now_ms=T0) is None
    assert await put(b"three", tenant="other") == b"three"
    assert await put(b"four", T0 + DAY_MS) == b"four"
    assert await store.expire_records(now_ms=T0 + DAY_MS, audit_before_ms=0) == 1
    answers = await asyncio.gather(*(put(b"%d" % n, T0 + 9 * DAY_MS) for n in range(20)))
    assert len(set(answers)) == 1
    with pytest.raises(InvalidValue):
        await put(b"x" * (1024 * 1024 + 1))


async def test_a_value_is_removed_by_who_wrote_it(store: Store) -> None:
    async def put(value: bytes, key: str = "key", tenant: str = TENANT) -> bytes:
        return await store.put_once(tenant, key, value, expires_ms=T0 + DAY_MS, now_ms=T0)

    for name, tenant in (("key", TENANT), ("more", TENANT), ("key", "other")):
        await put(b"one", name, tenant)
    await store.delete_once(TENANT, "key", b"two")
    assert await put(b"two") == b"one"
    for _ in range(2):
        await store.delete_once(TENANT, "key", b"one")
    assert await put(b"two") == b"two"
    assert [await put(b"two", "more"), await put(b"two", tenant="other")] == [b"one", b"one"]


async def give_everything(store: Store, tenant: str, start: int) -> Job:
    """A tenant with jobs in every state and one of every record; answers its running job."""
    jobtype = f"{tenant}-thumb"
    await store.create_tenant(Tenant(tenant, T0))
    jobs = [*new_jobs(8, start, jobtype=jobtype), new_job(start + 9, jobtype=jobtype, dt_ms=T0 + 999)]
    await store.add_jobs(jobs, now_ms=T0)
    done, parent, running = await claim(store, 3, jobtype=jobtype)
    child = new_job(start + 50, jobtype=f"{tenant}-child", parent=parent.id)
    await store.create_job(child, now_ms=T0)
    ended = archive(done, result=b"x" * 9000, fingerprint="f", message="m")
    await store.release_jobs(OWNER, [ended, archive(parent)], now_ms=T0)
    await store.set_handler(tenant, NewHandler(jobtype, "sh", b"true", T0))
    await store.set_rate_domain(RateDomain(tenant, "api", 1.0, 1), now_ms=T0)
    await store.put_once(tenant, "k", b"v", expires_ms=T0 + 9, now_ms=T0)
    await store.add_key(KEY._replace(key_id=f"key-{tenant}", tenant=tenant))
    return running


async def test_a_deleted_tenant_leaves_nothing(store: Store) -> None:
    await give_everything(store, TENANT, 0)
    running = await give_everything(store, "other", 100)
    first = await store.delete_tenant(TENANT, limit=3)
    record = await store.get_tenant(TENANT)
    assert record is not None
    assert (first.more, record.suspended, record.deleting) == (True, True, True)
    assert await store.get_key(f"key-{TENANT}") is None
    with pytest.raises(Conflict):
        await store.create_tenant(ACME)
    assert await claim(store) == []
    steps = [first]
    while steps[-1].more:
        steps.append(await store.delete_tenant(TENANT, limit=3))
    assert len(steps) > 3
    assert all(step.removed <= 4 for step in steps)
    assert await store.delete_tenant(TENANT) == (0, False)
    assert await store.get_tenant(TENANT) is None
    assert tuple(await store.get_usage(TENANT)) == (0, 0, 0)
    assert await store.get_counters(TENANT, now_ms=T0) == []
    assert await store.get_handler(TENANT, JOBTYPE, 1) is None
    assert await store.list_rate_domains(TENANT, now_ms=T0) == []
    assert await store.list_failure_groups(TENANT) == []
    assert await store.get_buckets(TENANT, width_ms=DAY_MS, since_ms=0, until_ms=T0 + 1) == []
    for state in JobState:
        assert (await store.list_jobs(TENANT, JobFilter(state), now_ms=T0)).records == ()
    assert await store.put_once(TENANT, "k", b"new", expires_ms=T0 + 9, now_ms=T0) == b"new"
    assert (await store.release_jobs(OWNER, [archive(running)], now_ms=T0)).applied == 1  # the other tenant's
    assert (await store.get_usage("other")).jobs == 10
    assert await store.get_key("key-other") is not None
    await store.create_tenant(ACME)
    await store.add_jobs(new_jobs(2), now_ms=T0)
    assert [(c.waiting, c.ok) for c in await store.get_counters(TENANT, now_ms=T0)] == [(2, 0)]


async def test_what_is_left_under_a_name_goes_as_long_as_no_tenant_has_it(store: Store) -> None:
    await give_everything(store, TENANT, 0)
    assert await store.delete_tenant(TENANT, only_leftovers=True) == (0, False)
    record = await store.get_tenant(TENANT)
    assert record is not None
    assert (record.deleting, (await store.get_usage(TENANT)).jobs > 0) == (False, True)
    while (await store.delete_tenant(TENANT)).more:
        pass
    await store.add_jobs(new_jobs(5, 200), now_ms=T0)  # as a daemon may that had accepted them before
    steps = [await store.delete_tenant(TENANT, limit=2, only_leftovers=True)]
    while steps[-1].more:
        steps.append(await store.delete_tenant(TENANT, limit=2, only_leftovers=True))
    assert len(steps) > 2
    assert (await store.get_usage(TENANT)).jobs == 0

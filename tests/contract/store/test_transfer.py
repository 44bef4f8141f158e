"""Moving everything from one store to another: nothing is left out, changed or counted twice, wherever it stops."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.base import Code, JobChange, JobFilter, JobState, Pause, RateDomain, Rearm, Store, Tenant, Timing
from store.errors import Conflict, InvalidValue
from store.url import open_store
from store.values.scoreboard import MINUTE_MS
from store.values.transfer import PARTS, ImportPlace, Part
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, ids, job_id, new_job, outcome, retry
from tests.support.relatives import CHILD, end, found, parent_with_replayed_child
from tests.support.store_audit import check_counters, check_states, read_all
from tests.support.store_content import BIG, fill, read_content
from tests.support.stores import BACK_ENDS, SLOW

PAIRS = [
    pytest.param((a, b), id=f"{a}-{b}", marks=[pytest.mark.slow] if SLOW & {a, b} else [])
    for a in BACK_ENDS
    for b in BACK_ENDS
    if a != b or a not in SLOW
]


@pytest.fixture(params=PAIRS)
async def empty_stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    first, second = request.param
    for name in ("from", "to"):
        await asyncio.to_thread((tmp_path / name).mkdir)
    async with (
        BACK_ENDS[first](tmp_path / "from") as source_url,
        BACK_ENDS[second](tmp_path / "to") as target_url,
        open_store(source_url) as source,
        open_store(target_url) as target,
    ):
        yield source, target


@pytest.fixture
async def stores(empty_stores: tuple[Store, Store]) -> tuple[Store, Store]:
    """One with content, and one that is empty."""
    await fill(empty_stores[0])
    return empty_stores


async def move(source: Store, target: Store, *, limit: int = 7, stop_after: int | None = None) -> bool:
    """As `functory migrate` does it, in small pages; stops after so many, as if it were killed between two. Answers
    whether it came to the end."""
    await source.begin_export(now_ms=T0)
    place = await target.begin_import("the source")
    pages = 0
    for part in PARTS[PARTS.index(place.part) :]:
        cursor = place.cursor if part is place.part else None
        while True:
            page = await source.export(part, cursor=cursor, limit=limit)
            cursor = page.cursor
            following = PARTS[min(PARTS.index(part) + 1, len(PARTS) - 1)]
            after = ImportPlace(following, None) if cursor is None else ImportPlace(part, cursor)
            await target.import_records(part, page.records, after=after, now_ms=T0)
            pages += 1
            if pages == stop_after:
                return False
            if cursor is None:
                break
    await target.end_import()
    return True


async def test_what_is_kept_of_schedules_arrives(empty_stores: tuple[Store, Store]) -> None:
    source, target = empty_stores
    await source.add_jobs([new_job(n, repeat="HOURLY") for n in (1, 2)], now_ms=T0)
    for job in await claim(source, 2):
        await source.release_jobs(OWNER, [Rearm(job.id, job.token, T0 + 900, outcome(Code.FAILED))], now_ms=T0 + 1)
    await source.update_job(TENANT, job_id(1), JobChange(pause=Pause(T0 + 2, "k1")), now_ms=T0 + 2)
    await source.update_job(TENANT, job_id(2), JobChange(dt_ms=T0 + 3, timing=Timing.EXTRA), now_ms=T0 + 3)
    await source.add_jobs([new_job(3, jobtype="acme-z", repeat="HOURLY")], now_ms=T0 + 3)
    for each in (JobChange(pause=Pause(T0 + 3, "k1")), JobChange(repeat="")):
        await source.update_job(TENANT, job_id(3), each, now_ms=T0 + 3)
    await move(source, target)
    for store in empty_stores:
        paused, extra, last = (await store.list_repeating(TENANT, now_ms=T0 + 4)).records
        assert (paused.state, paused.schedule.pause) == (JobState.PAUSED, Pause(T0 + 2, "k1"))
        assert (extra.job.due_ms, extra.schedule.regular_ms) == (T0 + 3, T0 + 900)
        assert (last.job.id, last.job.repeat) == (job_id(3), "")
        assert [ended.code for ended in (*paused.schedule.rounds, *extra.schedule.rounds)] == [Code.FAILED] * 2
        await store.update_job(TENANT, job_id(1), JobChange(resume_ms=0), now_ms=T0 + 5)
        assert ids(await claim(store, 9, now_ms=T0 + 900)) == [job_id(2), job_id(1)]


async def test_everything_arrives_and_nothing_else(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await move(source, target)
    sent, arrived = await read_content(source), await read_content(target)
    for part in PARTS:
        assert arrived[part] == sent[part], part
    assert min(len(records) for records in sent.values()) > 0, "the test has something of everything"


async def test_a_next_round_that_waits_for_a_child_comes_at_its_time(empty_stores: tuple[Store, Store]) -> None:
    source, target = empty_stores
    next_ms = T0 + 86_400_000
    await parent_with_replayed_child(source, next_ms)
    await move(source, target)
    sent, arrived = await read_content(source), await read_content(target)
    assert arrived[Part.JOBS] == sent[Part.JOBS]
    for store in (source, target):
        await store.expire_locks(now_ms=T0)
        await end(store, CHILD)
        parent = await found(store, 0)
        assert (parent.state, parent.job.due_ms) == (JobState.DEFERRED, next_ms)
        await check_counters(store, TENANT, T0)


async def test_a_domain_under_a_pattern_gets_no_new_tokens(stores: tuple[Store, Store]) -> None:
    """Its bucket moves with it: whoever has used it up waits, also after the move."""
    source, target = stores
    await source.set_rate_domain(RateDomain(TENANT, "mail:*", 0.001, 3), now_ms=T0)
    more = [new_job(number, jobtype="acme-more", domain="mail:a") for number in range(700, 704)]
    await source.add_jobs(more, now_ms=T0)
    await claim(source, jobtype="acme-more")
    before = await source.find_rate(TENANT, "mail:a", now_ms=T0)
    assert before is not None
    assert before.tokens < 1
    await move(source, target)
    assert await target.find_rate(TENANT, "mail:a", now_ms=T0) == before
    assert await claim(target, jobtype="acme-more") == []


async def test_every_verb_answers_as_before(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await move(source, target)
    later = T0 + 100
    for tenant in (TENANT, "other", "stray"):
        for ask in (
            lambda store, tenant=tenant: read_all(store, tenant, later),
            lambda store, tenant=tenant: store.get_counters(tenant, now_ms=later),
            lambda store, tenant=tenant: store.get_usage(tenant),
            lambda store, tenant=tenant: store.get_buckets(tenant, width_ms=MINUTE_MS, since_ms=0, until_ms=T0 * 2),
            lambda store, tenant=tenant: store.list_failure_groups(tenant),
            lambda store, tenant=tenant: store.list_handlers(tenant),
            lambda store, tenant=tenant: store.list_rate_domains(tenant, now_ms=later),
            lambda store, tenant=tenant: store.list_keys(tenant),
            lambda store, tenant=tenant: store.get_tenant(tenant),
        ):
            assert await ask(target) == await ask(source)
    assert await target.get_waiting_jobtypes(now_ms=later) == await source.get_waiting_jobtypes(now_ms=later)
    assert (await target.list_audit()).events == (await source.list_audit()).events
    assert await target.get_note("who|is|in", now_ms=later) == b"note"
    assert await target.get_journal_position("zz") == await source.get_journal_position("zz")
    assert await target.list_consumers() == await source.list_consumers()
    window = {"after": 0, "until": 4}
    theirs = await source.look_at_window(TENANT, "acme-stage", **window)
    assert await target.look_at_window(TENANT, "acme-stage", **window) == theirs
    assert await target.get_index_state(TENANT, "acme-indexed") == await source.get_index_state(TENANT, "acme-indexed")
    for it in await read_all(source, TENANT, later):
        assert await target.get_job(TENANT, it, now_ms=later) == await source.get_job(TENANT, it, now_ms=later)
    await check_states(target, TENANT, later)


async def test_life_goes_on_as_it_would_have(stores: tuple[Store, Store]) -> None:
    """The same steps on both, from the same state, end the same."""
    source, target = stores
    await move(source, target)
    far = T0 + 10**9
    for store in stores:
        while await store.expire_locks(now_ms=far):
            pass
        for _ in range(4):
            for waiting in await store.get_waiting_jobtypes(now_ms=far):
                for job in await claim(store, 100, now_ms=far, jobtype=waiting.jobtype):
                    await store.release_jobs(OWNER, [archive(job, Code.OK, result=b"r")], now_ms=far)
        await store.end_consumer(TENANT, "stage", now_ms=far)
        for job in await claim(store, jobtype="acme-stage", now_ms=far):
            await store.release_jobs(OWNER, [archive(job)], now_ms=far)
        await store.create_job(new_job(900, jobtype="acme-unique", unique="live"), now_ms=far)
        await check_states(store, TENANT, far)
    assert await read_content(source) == await read_content(target)
    counters = await target.get_counters(TENANT, now_ms=far)
    assert sum(row.waiting + row.deferred + row.running + row.blocked for row in counters) == 1


@pytest.mark.parametrize("every", [10])
async def test_an_import_that_stops_goes_on_where_it_was(stores: tuple[Store, Store], every: int) -> None:
    source, target = stores
    rounds = 1
    while not await move(source, target, stop_after=every):
        rounds += 1
    assert rounds > 2
    assert await read_content(target) == await read_content(source)
    await check_states(target, TENANT, T0)


async def test_pages_that_come_twice_change_nothing(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await source.begin_export(now_ms=T0)
    await target.begin_import("the source")
    for part in PARTS:
        page = await source.export(part, limit=1000)
        for _ in range(2):
            await target.import_records(part, page.records, after=ImportPlace(part, None), now_ms=T0)
    await target.end_import()
    assert await read_content(target) == await read_content(source)
    await check_states(target, TENANT, T0)


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "retried"])
async def test_a_job_of_a_key_is_not_overtaken_after_an_import(
    stores: tuple[Store, Store], *, is_running: bool
) -> None:
    source, target = stores
    jobtype = "acme-ordered"
    await source.add_jobs([new_job(n, jobtype=jobtype, key="ada") for n in (801, 802)], now_ms=T0)
    first = await claim_one(source, jobtype=jobtype, max_per_key=1)
    if not is_running:
        await source.release_jobs(OWNER, [retry(first, T0 + 5000)], now_ms=T0)
    before = await source.get_key_state(TENANT, jobtype, "ada", limit=5, now_ms=T0)
    await move(source, target)
    assert await target.get_key_state(TENANT, jobtype, "ada", limit=5, now_ms=T0) == before
    assert await claim(target, jobtype=jobtype, now_ms=T0 + 1000, max_per_key=1) == []
    if not is_running:
        assert ids(await claim(target, jobtype=jobtype, now_ms=T0 + 5000, max_per_key=1)) == [first.id]


async def test_a_running_job_of_a_key_that_comes_twice_counts_once(stores: tuple[Store, Store]) -> None:
    source, target = stores
    jobtype = "acme-ordered"
    await source.add_jobs([new_job(n, jobtype=jobtype, key="ada") for n in (801, 802, 803)], now_ms=T0)
    await claim_one(source, jobtype=jobtype)
    await source.begin_export(now_ms=T0)
    await target.begin_import("the source")
    for part in (Part.JOBS, Part.JOBS):
        page = await source.export(part, limit=1000)
        await target.import_records(part, page.records, after=ImportPlace(part, None), now_ms=T0)
    await target.end_import()
    assert len(await claim(target, jobtype=jobtype, max_per_key=2)) == 1


async def test_half_a_store_gives_no_sysid_and_takes_no_other_source(stores: tuple[Store, Store]) -> None:
    source, target = stores
    await move(source, target, stop_after=5)
    with pytest.raises(Conflict, match="the source"):
        await target.reserve_sysid(info="", lease_ms=1, now_ms=T0)
    with pytest.raises(Conflict, match="the source"):
        await target.begin_import("another source")
    await move(source, target)
    sysid = (await target.reserve_sysid(info="", lease_ms=1, now_ms=T0)).sysid
    assert int(sysid, 36) == 4, "the sysids go on where the source's were"
    await target.end_import()


async def test_only_an_empty_store_is_filled(store: Store) -> None:
    page = await store.export(Part.TENANTS)
    assert (page.records, page.cursor) == ((), None)
    with pytest.raises(Conflict, match="begun"):
        await store.import_records(Part.TENANTS, [], after=ImportPlace(Part.KEYS, None), now_ms=T0)
    await store.create_tenant(Tenant(TENANT, T0))
    with pytest.raises(Conflict, match="tenants"):
        await store.begin_import("x")


async def test_what_is_no_record_or_cursor_is_refused(store: Store) -> None:
    await store.begin_import("x")
    with pytest.raises(InvalidValue, match="Tenant"):
        await store.import_records(Part.KEYS, [Tenant(TENANT, T0)], after=ImportPlace(Part.KEYS, None), now_ms=T0)
    for cursor in ("", "nonsense", "[]", '["tenants"]', '["keys", "x"]', "7"):
        with pytest.raises(InvalidValue):
            await store.export(Part.TENANTS, cursor=cursor)
    for limit in (0, 1001):
        with pytest.raises(InvalidValue):
            await store.export(Part.TENANTS, limit=limit)
    await store.end_import()
    assert (await store.list_jobs(TENANT, JobFilter(JobState.WAITING), now_ms=T0)).records == ()


async def test_a_page_is_bounded_by_bytes(store: Store) -> None:
    await store.add_jobs([new_job(n, data=b"x" * BIG) for n in range(4)], now_ms=T0)
    sizes = []
    cursor: str | None = None
    for _ in range(10):
        page = await store.export(Part.JOBS, cursor=cursor, max_bytes=2 * BIG)
        sizes.append(len(page.records))
        cursor = page.cursor
        if cursor is None:
            break
    assert sizes == [2, 2]
    one = await store.export(Part.JOBS, max_bytes=1)
    assert len(one.records) == 1

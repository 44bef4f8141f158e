"""Opening and closing a store."""

import pytest

from store.base import Store
from store.errors import StoreClosed, UnsupportedStore
from store.url import open_store
from tests.support.jobs import OWNER, T0, TENANT, archive, claim_one, new_jobs


async def test_verbs_of_a_store_that_is_not_open_say_so(store_url: str) -> None:
    store = open_store(store_url)
    with pytest.raises(StoreClosed):
        await store.add_jobs(new_jobs(1), now_ms=T0)
    with pytest.raises(StoreClosed):
        await store.get_counters(TENANT, now_ms=T0)
    with pytest.raises(StoreClosed):
        await store.ping()


async def test_close_is_legal_before_open_and_twice(store_url: str) -> None:
    store = open_store(store_url)
    await store.close()
    await store.open()
    await store.open()
    await store.ping()
    await store.close()
    await store.close()
    with pytest.raises(StoreClosed):
        await store.ping()


async def test_a_store_opens_again_with_what_it_had(store_url: str) -> None:
    store = open_store(store_url)
    await store.open()
    await store.add_jobs(new_jobs(3), now_ms=T0)
    await store.close()
    await store.open()
    assert (await store.get_usage(TENANT)).jobs == 3
    await store.close()


async def test_two_objects_on_one_database_see_each_other(store: Store, store_url: str) -> None:
    async with open_store(store_url) as other:
        await store.add_jobs(new_jobs(2), now_ms=T0)
        assert [t.waiting for t in await other.get_waiting_jobtypes(now_ms=T0)] == [2]
        await other.add_jobs(new_jobs(2, start=2), now_ms=T0)
        assert [t.waiting for t in await store.get_waiting_jobtypes(now_ms=T0)] == [4]


@pytest.mark.parametrize("url", ["", "store.db", "postgres://x/y", "SQLITE", "http://[", "mongo://x"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UnsupportedStore):
        open_store(url)


def test_a_refusal_never_repeats_a_password() -> None:
    with pytest.raises(UnsupportedStore) as refusal:
        open_store("postgres://user:secret@host/db")
    assert "secret" not in str(refusal.value)


async def test_a_password_that_is_not_encoded_is_told_how_to_be() -> None:
    with pytest.raises(UnsupportedStore, match="percent-encoded") as refusal:
        async with open_store("mongodb://user:secr@t@host/db"):
            pass
    assert "secr" not in str(refusal.value)


async def test_numbers_come_back_as_plain_ones(store: Store) -> None:
    """A back end's own class of numbers, even one that is an int, must not reach the encoders further up."""
    await store.add_jobs(new_jobs(1), now_ms=T0)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.outcome is not None
    values = [*job, *record.job, *record.outcome, *(await store.get_counters(TENANT, now_ms=T0))[0]]
    assert {type(value) for value in values if isinstance(value, int)} <= {int, bool}

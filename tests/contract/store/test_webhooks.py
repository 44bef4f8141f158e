"""Webhooks: the last that was written of a name, in order, of their tenant and gone with it."""

import asyncio

import pytest

from store.base import Store, Tenant, WebhookRecord
from store.errors import InvalidValue
from tests.support.jobs import T0, TENANT


def webhook(name: str = "github", *, tenant: str = TENANT, settings: str = '{"type": "build"}') -> WebhookRecord:
    return WebhookRecord(tenant, name, T0, "key1", settings)


async def test_a_webhook_is_written_changed_and_deleted(store: Store) -> None:
    assert await store.get_webhook(TENANT, "github") is None
    assert await store.put_webhook(webhook())
    assert await store.get_webhook(TENANT, "github") == webhook()
    changed = WebhookRecord(TENANT, "github", T0 + 1, "key2", "other \0 settings")
    assert not await store.put_webhook(changed)
    assert await store.get_webhook(TENANT, "github") == changed
    assert await store.delete_webhook(TENANT, "github")
    assert await store.get_webhook(TENANT, "github") is None
    assert not await store.delete_webhook(TENANT, "github")


async def test_of_several_first_writers_one_is_told_that_it_was_new(store: Store) -> None:
    told = await asyncio.gather(*(store.put_webhook(webhook(settings=f"{number}")) for number in range(5)))
    assert sum(told) == 1


async def test_webhooks_are_in_order_and_belong_to_their_tenant(store: Store) -> None:
    for tenant, name in ((TENANT, "b"), (TENANT, "a"), ("other", "a"), (f"{TENANT}2", "c")):
        assert await store.put_webhook(webhook(name, tenant=tenant))
    assert [one.name for one in await store.list_webhooks(TENANT)] == ["a", "b"]
    assert await store.list_webhooks("nobody") == []
    assert await store.get_webhook("other", "b") is None
    assert not await store.delete_webhook("other", "b")


async def test_webhooks_go_with_their_tenant(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await store.put_webhook(webhook())
    await store.put_webhook(webhook(tenant="other"))
    while (await store.delete_tenant(TENANT)).more:
        pass
    assert await store.list_webhooks(TENANT) == []
    assert await store.list_webhooks("other") == [webhook(tenant="other")]


@pytest.mark.parametrize(
    "wrong",
    [
        webhook(""),
        webhook("a|b"),
        webhook("a b"),
        webhook(tenant="Not-A-Tenant"),
        webhook(settings="\ud800"),
        webhook(settings="x" * 70_000),
        webhook()._replace(created_ms=-1),
        webhook()._replace(author="x" * 300),
    ],
)
async def test_what_is_no_webhook_is_refused(store: Store, wrong: WebhookRecord) -> None:
    with pytest.raises(InvalidValue):
        await store.put_webhook(wrong)


async def test_a_name_that_no_webhook_can_have_is_refused(store: Store) -> None:
    for verb in (store.get_webhook, store.delete_webhook):
        with pytest.raises(InvalidValue):
            await verb(TENANT, "a|b")
    with pytest.raises(InvalidValue):
        await store.list_webhooks("Not-A-Tenant")

"""Alert rules: changes on condition of the version before, none of another rule of the name, gone with their tenant."""

import asyncio

import pytest

from store.base import AlertRecord, Store, Tenant
from store.errors import InvalidValue
from tests.support.jobs import T0, TENANT


def rule(version: int = 1, state: str = "", *, tenant: str = TENANT, name: str = "mail.down") -> AlertRecord:
    return AlertRecord(tenant, name, version, T0, "key1", '{"type": "mail*"}', state)


async def test_a_rule_is_written_changed_and_deleted(store: Store) -> None:
    assert await store.list_alerts(TENANT) == []
    assert await store.put_alert(rule(1))
    changed = rule(2, "firing \0")._replace(author="key2", settings="{}")
    assert await store.put_alert(changed)
    assert await store.list_alerts(TENANT) == [changed]
    assert await store.delete_alert(TENANT, "mail.down")
    assert await store.list_alerts(TENANT) == []
    assert not await store.delete_alert(TENANT, "mail.down")


async def test_a_change_follows_the_version_that_was_read(store: Store) -> None:
    assert not await store.put_alert(rule(2)), "there is nothing to change"
    assert await store.put_alert(rule(1))
    assert not await store.put_alert(rule(1, "again"))
    assert not await store.put_alert(rule(3))
    assert await store.put_alert(rule(2))
    assert not await store.put_alert(rule(2, "late"))
    assert await store.list_alerts(TENANT) == [rule(2)]


async def test_of_several_writers_of_a_version_one_wins(store: Store) -> None:
    for version in (1, 2):
        states = [f"state {version} {number}" for number in range(5)]
        won = await asyncio.gather(*(store.put_alert(rule(version, state)) for state in states))
        assert sum(won) == 1
        assert [one.state for one in await store.list_alerts(TENANT)] == [states[won.index(True)]]


async def test_who_is_late_does_not_change_another_rule_of_the_name(store: Store) -> None:
    await store.put_alert(rule(1))
    await store.delete_alert(TENANT, "mail.down")
    another = rule(1)._replace(created_ms=T0 + 1)
    await store.put_alert(another)
    assert not await store.put_alert(rule(2, "of the one before"))
    assert await store.list_alerts(TENANT) == [another]


async def test_rules_are_in_order_and_belong_to_their_tenant(store: Store) -> None:
    for tenant, name in ((TENANT, "b"), (TENANT, "a"), ("other", "a"), (f"{TENANT}2", "c")):
        await store.put_alert(rule(tenant=tenant, name=name))
    assert [one.name for one in await store.list_alerts(TENANT)] == ["a", "b"]
    assert await store.list_alerts("nobody") == []
    assert await store.list_alert_tenants() == sorted({TENANT, "other", f"{TENANT}2"})
    assert not await store.delete_alert("other", "b")


async def test_rules_go_with_their_tenant(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await store.put_alert(rule())
    await store.put_alert(rule(tenant="other"))
    while (await store.delete_tenant(TENANT)).more:
        pass
    assert await store.list_alerts(TENANT) == []
    assert await store.list_alert_tenants() == ["other"]


@pytest.mark.parametrize(
    "wrong",
    [
        rule(0),
        rule(name=""),
        rule(name="a|b"),
        rule(name="a b"),
        rule(tenant="Not-A-Tenant"),
        rule(state="\ud800"),
        rule(state="x" * 70_000),
        rule()._replace(settings="x" * 70_000),
    ],
)
async def test_what_is_no_rule_is_refused(store: Store, wrong: AlertRecord) -> None:
    with pytest.raises(InvalidValue):
        await store.put_alert(wrong)
    with pytest.raises(InvalidValue):
        await store.delete_alert(TENANT, "a|b")

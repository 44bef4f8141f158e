"""Sealed values: versions that are never given twice, changes on condition, no tenant in another's way."""

import asyncio

import pytest

from store.base import Secret, Store, Tenant
from store.errors import InvalidValue
from store.names import MAX_SECRET_BYTES
from tests.support.jobs import T0, TENANT


def secret(version: int = 1, data: bytes = b"sealed\0", *, tenant: str = TENANT, name: str = "API_KEY") -> Secret:
    return Secret(tenant, name, version, T0 + version, "key1", "k1", data)


async def test_a_secret_is_set_rotated_and_deleted(store: Store) -> None:
    assert await store.list_secrets(TENANT) == []
    assert await store.put_secret(secret(1))
    assert await store.put_secret(secret(2, b"anew"))
    assert await store.list_secrets(TENANT) == [secret(2, b"anew")]
    assert await store.delete_secret(TENANT, "API_KEY", now_ms=T0 + 9)
    assert await store.list_secrets(TENANT) == [Secret(TENANT, "API_KEY", 3, T0 + 9, "", "", b"")]
    assert not await store.delete_secret(TENANT, "API_KEY", now_ms=T0 + 10)


async def test_a_version_is_never_given_twice(store: Store) -> None:
    assert await store.put_secret(secret(1))
    assert not await store.put_secret(secret(1, b"other"))
    assert not await store.put_secret(secret(3))
    await store.delete_secret(TENANT, "API_KEY", now_ms=T0)
    assert not await store.put_secret(secret(1, b"other"))
    assert not await store.put_secret(secret(2, b"other"))
    assert await store.put_secret(secret(3, b"other"))
    assert await store.list_secrets(TENANT) == [secret(3, b"other")]


async def test_of_several_writers_of_a_version_one_wins(store: Store) -> None:
    values = [f"value {number}".encode() for number in range(5)]
    won = await asyncio.gather(*(store.put_secret(secret(1, value)) for value in values))
    assert sum(won) == 1
    assert [one.data for one in await store.list_secrets(TENANT)] == [values[won.index(True)]]


async def test_a_secret_is_sealed_anew_only_in_the_version_in_force(store: Store) -> None:
    await store.put_secret(secret(1))
    assert await store.reseal_secret(secret(1, b"k2 sealed")._replace(key_id="k2"))
    assert await store.list_secrets(TENANT) == [secret(1, b"k2 sealed")._replace(key_id="k2")]
    await store.put_secret(secret(2))
    assert not await store.reseal_secret(secret(1, b"late"))
    assert await store.list_secrets(TENANT) == [secret(2)]
    await store.delete_secret(TENANT, "API_KEY", now_ms=T0)
    assert not await store.reseal_secret(secret(3, b"late"))
    assert not await store.reseal_secret(secret(1, name="NONE"))


async def test_the_first_version_of_another_tenant_of_the_name_is_another(store: Store) -> None:
    """Whoever seals anew has read the value of the tenant before."""
    await store.put_secret(secret(1))
    for other in (secret(1)._replace(created_ms=T0), secret(1)._replace(author="key2")):
        assert not await store.reseal_secret(other._replace(data=b"of the one before"))
    assert await store.list_secrets(TENANT) == [secret(1)]


async def test_names_are_in_order_and_belong_to_their_tenant(store: Store) -> None:
    for tenant, name in ((TENANT, "B"), (TENANT, "A"), ("other", "A"), (f"{TENANT}2", "C")):
        await store.put_secret(secret(tenant=tenant, name=name))
    assert [one.name for one in await store.list_secrets(TENANT)] == ["A", "B"]
    assert await store.list_secrets("nobody") == []
    assert await store.list_secret_tenants() == sorted({TENANT, "other", f"{TENANT}2"})
    assert not await store.delete_secret("other", "B", now_ms=T0)


async def test_the_keys_are_those_of_secrets_that_are_set(store: Store) -> None:
    assert await store.list_secret_keys() == []
    for name, key_id in (("A", "k2"), ("B", "k1"), ("C", "k2"), ("D", "k3")):
        await store.put_secret(secret(name=name)._replace(key_id=key_id))
    await store.delete_secret(TENANT, "D", now_ms=T0)
    await store.reseal_secret(secret(name="B")._replace(key_id="k4"))
    assert await store.list_secret_keys() == ["k2", "k4"]


async def test_secrets_go_with_their_tenant(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await store.put_secret(secret())
    await store.put_secret(secret(tenant="other"))
    while (await store.delete_tenant(TENANT)).more:
        pass
    assert await store.list_secrets(TENANT) == []
    assert await store.list_secret_tenants() == ["other"]


@pytest.mark.parametrize(
    "wrong",
    [
        secret(0),
        secret(data=b""),
        secret(data=b"x" * (MAX_SECRET_BYTES + 1)),
        secret(name="a|b"),
        secret(name="1A"),
        secret(name=""),
        secret(tenant="Not-A-Tenant"),
        secret()._replace(key_id=""),
    ],
)
async def test_what_is_no_sealed_secret_is_refused(store: Store, wrong: Secret) -> None:
    for verb in (store.put_secret, store.reseal_secret):
        with pytest.raises(InvalidValue):
            await verb(wrong)

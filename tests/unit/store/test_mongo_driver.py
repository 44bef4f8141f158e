"""The driver's edge without a server: refused URLs, errors by kind, options of the URL."""

import asyncio
import socket
from typing import Any

import dns.resolver
import pytest
from pymongo import errors as driver_errors

from store.errors import StoreClosed, StoreError, StoreFull, StoreUnavailable, UnsupportedStore
from store.mongo import MongoStore
from store.mongo.server.driver import connect, disconnect, is_transient, retried, translated


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://user:s3cret@host:port/functory",
        "mongodb://user:s3cret@/functory",
        "mongodb://user:s3cret@host/functory?directConnection=true&loadBalanced=true",
        "mongodb://user:s3cret@host/bad name",
    ],
)
def test_a_url_that_the_driver_refuses_is_not_repeated(url: str) -> None:
    with pytest.raises(UnsupportedStore) as refused:
        connect(url)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_the_database_is_that_of_the_url_or_functory() -> None:
    for url, name in (("mongodb://host/other", "other"), ("mongodb://host", "functory")):
        client, database = await asyncio.to_thread(connect, url)
        assert database.name == name
        await disconnect(client)


async def test_options_of_the_url_win_over_our_defaults() -> None:
    client, database = await asyncio.to_thread(connect, "mongodb://host/?serverSelectionTimeoutMS=123&w=1")
    options: Any = client.options  # the stubs call it a function
    assert options.server_selection_timeout == pytest.approx(0.123)
    assert options.pool_options.socket_timeout == pytest.approx(60)
    assert database.write_concern.document == {"w": "majority", "j": True}, "but durability is not for the URL"
    await disconnect(client)


async def test_a_server_that_is_not_there_is_unavailable_and_the_object_can_be_closed() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        store = MongoStore(f"mongodb://127.0.0.1:{port}/x?serverSelectionTimeoutMS=50&connectTimeoutMS=50")
        with pytest.raises(StoreUnavailable):
            await store.open()
        with pytest.raises(StoreClosed):
            await store.ping()
        await store.close()


@pytest.mark.parametrize("failure", [dns.resolver.NXDOMAIN, dns.resolver.LifetimeTimeout, dns.resolver.NoNameservers])
async def test_a_cluster_whose_names_nobody_resolves_is_unavailable(
    failure: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that boots, say: a daemon starts without the store then, and joins it later."""
    asked: list[str] = []

    def resolve(name: str, *_: object, **__: object) -> None:
        asked.append(name)
        raise failure

    monkeypatch.setattr(dns.resolver, "resolve", resolve)
    store = MongoStore("mongodb+srv://cluster.example.com/x")
    for verb in (store.open, store.open, store.get_version):
        with pytest.raises(StoreUnavailable):
            await verb()
    assert asked == ["_mongodb._tcp.cluster.example.com"] * 3, "it is asked again each time"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (driver_errors.AutoReconnect("reset"), StoreUnavailable),
        (driver_errors.ServerSelectionTimeoutError("none"), StoreUnavailable),
        (driver_errors.NotPrimaryError("stepped down"), StoreUnavailable),
        (driver_errors.ExecutionTimeout("slow", 50), StoreUnavailable),
        (driver_errors.WriteConcernError("no majority", 64), StoreUnavailable),
        (driver_errors.BulkWriteError({"writeErrors": [{"code": 91, "errmsg": "down"}]}), StoreUnavailable),
        (driver_errors.OperationFailure("disk", 14031), StoreFull),
        (driver_errors.OperationFailure("das Datenbanksystem startet", 1), StoreUnavailable),
        (
            driver_errors.BulkWriteError({"writeErrors": [{"code": 999, "errmsg": "deadlock detected"}]}),
            StoreUnavailable,
        ),
        (driver_errors.WriteError("index row requires 20032 bytes, maximum size is 8191", 261), StoreError),
        (driver_errors.OperationFailure("Authentication failed.", 18), StoreUnavailable),
        (driver_errors.OperationFailure("not allowed", 13), StoreError),
        (driver_errors.InvalidOperation("closed"), StoreClosed),
    ],
)
def test_errors_are_translated_by_kind(error: Exception, expected: type[StoreError]) -> None:
    with pytest.raises(StoreError) as seen, translated("verb"):
        raise error
    assert type(seen.value) is expected
    assert str(seen.value).startswith("verb: ")


async def test_only_what_passes_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.mongo.server.driver.RETRY_BASE_S", 0)
    failures: list[Exception] = [driver_errors.AutoReconnect("a"), driver_errors.AutoReconnect("b")]

    async def call() -> str:
        if failures:
            raise failures.pop()
        return "answer"

    assert await retried(call) == "answer"
    failures.append(driver_errors.OperationFailure("no", 13))
    with pytest.raises(driver_errors.OperationFailure):
        await retried(call)
    assert failures == []


def test_a_timeout_of_the_server_is_transient() -> None:
    assert is_transient(driver_errors.OperationFailure("x", 50, {"code": 50}))

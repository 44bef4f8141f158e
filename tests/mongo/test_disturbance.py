"""PostgreSQL under the gateway ends its connections: calls say that the store is unavailable, and later work again."""

import asyncio

import pytest

from store.base import AuditEvent
from store.errors import StoreUnavailable
from store.mongo import MongoStore
from tests.support.jobs import T0, TENANT
from tests.support.mongo_server import FerretDB, shared_server

pytestmark = pytest.mark.slow

EVENT = AuditEvent(T0, "test", "tenant.update", TENANT, "")
END_ALL = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid != pg_backend_pid()"
CALLS = 20


async def write(store: MongoStore) -> bool:
    try:
        await store.append_audit(EVENT)
    except StoreUnavailable:
        return False
    return True


async def test_connections_that_end_under_the_gateway_are_a_store_that_is_unavailable(mongo_url: str) -> None:
    server = shared_server()
    if not isinstance(server, FerretDB):
        pytest.skip("there is no PostgreSQL under this server")
    async with MongoStore(mongo_url) as store:
        were_told = 0
        for _ in range(5):
            assert all(await asyncio.gather(*(write(store) for _ in range(CALLS))))
            await asyncio.to_thread(server.ask_postgres, END_ALL)
            were_told += (await asyncio.gather(*(write(store) for _ in range(CALLS)))).count(False)
            async with asyncio.timeout(60):
                while not await write(store):
                    pass
    assert were_told, "nobody noticed"

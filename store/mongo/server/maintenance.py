"""The database as a whole: its version and its documents. Copies are the server's business."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from store.errors import NotFound, UnsupportedStore
from store.mongo.server.core import Core
from store.mongo.server.driver import Collection, Database, connect, disconnect, retried, translated
from store.mongo.server.schema import VERSION
from store.protocol.maintenance import StoreMaintenance
from store.values.version import StoreVersion


class MongoMaintenance(Core, StoreMaintenance):
    @property
    def file(self) -> None:
        return None

    async def get_version(self) -> StoreVersion:
        async with self._database("get_version") as database:
            info = await retried(lambda: database.command("buildInfo"))
            found = await retried(lambda: database["meta"].find_one({"_id": "schema"}))
        schema = 0 if found is None else int(found["version"])
        return StoreVersion(schema, VERSION, f"MongoDB protocol {info['version']}")

    async def copy_to(self, target: Path) -> None:
        raise UnsupportedStore(
            f"the store is on MongoDB and cannot be copied to {target}: use mongodump or a snapshot of the"
            " servers (docs/backup.md)"
        )

    async def verify(self, *, quick: bool = False) -> dict[str, int]:
        async with self._database("verify") as database:
            names = sorted(await retried(database.list_collection_names))
            if "meta" not in names:
                raise NotFound(f"the database {database.name} holds no store")
            return {name: await retried(partial(_count, database[name], quick=quick)) for name in names}

    @asynccontextmanager
    async def _database(self, verb: str) -> AsyncIterator[Database]:
        """On a connection of its own, since the store need not be open."""
        with translated(verb):
            client, database = await asyncio.to_thread(connect, self._url)
            try:
                yield database
            finally:
                await disconnect(client)


async def _count(collection: Collection, *, quick: bool) -> int:
    return await (collection.estimated_document_count() if quick else collection.count_documents({}))

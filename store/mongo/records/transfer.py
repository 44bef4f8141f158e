"""The verbs of export and import on MongoDB."""

from collections.abc import Sequence
from typing import Final

from store.errors import Conflict
from store.mongo.queue.expire import finish_interrupted
from store.mongo.records.exporting import export_part
from store.mongo.records.importing import put_records
from store.mongo.server import schema
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import retried, upserted
from store.protocol.transfer import StoreTransfer
from store.transfers import require_empty, require_same
from store.values.transfer import PARTS, ExportPage, ImportPlace, Part, Record

_MOST_INTERRUPTED: Final = 10_000


class MongoTransfer(Core, StoreTransfer):
    @once
    async def begin_export(self, *, now_ms: int) -> None:
        await finish_interrupted(self, now_ms, _MOST_INTERRUPTED, gone_before_ms=now_ms + 1)

    @repeatable
    async def export(
        self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 32 * 1024 * 1024
    ) -> ExportPage:
        return await export_part(self, part, cursor, limit, max_bytes)

    @repeatable
    async def begin_import(self, source: str) -> ImportPlace:
        # No daemon uses the store: whoever has a change under way here is a process of an import that died.
        await self.ledger.settle()
        await self.ledger.settle_lapsed(gone_before_ms=1 << 62, limit=1000)
        note = await self.collections.meta.find_one({"_id": schema.IMPORT_NOTE})
        if note is None:
            await require_empty(self)
            fresh = {"$setOnInsert": {"source": source, "part": PARTS[0].value, "cursor": None}}
            await upserted(lambda: self.collections.meta.update_one({"_id": schema.IMPORT_NOTE}, fresh, upsert=True))
            return ImportPlace(PARTS[0], None)
        require_same(source, note["source"])
        return ImportPlace(Part(note["part"]), note["cursor"])

    @once
    async def import_records(self, part: Part, records: Sequence[Record], *, after: ImportPlace, now_ms: int) -> None:
        if await self.collections.meta.find_one({"_id": schema.IMPORT_NOTE}) is None:
            raise Conflict("no import was begun")
        await put_records(self, part, records, now_ms)
        place = {"$set": {"part": after.part.value, "cursor": after.cursor}}
        await retried(lambda: self.collections.meta.update_one({"_id": schema.IMPORT_NOTE}, place))

    @repeatable
    async def end_import(self) -> None:
        await self.collections.meta.delete_one({"_id": schema.IMPORT_NOTE})

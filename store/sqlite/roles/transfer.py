"""The verbs of export and import on SQLite."""

from collections.abc import Sequence

from store.checks import check_time
from store.errors import Conflict
from store.names import check_label
from store.protocol.transfer import StoreTransfer
from store.sqlite import exporting, importing, importnote
from store.sqlite.core import SqliteCore
from store.transfers import check_export, check_records, require_empty
from store.values.transfer import PARTS, ExportPage, ImportPlace, Part, Record


class SqliteTransfer(SqliteCore, StoreTransfer):
    async def begin_export(self, *, now_ms: int) -> None:
        check_time("now_ms", now_ms)
        await self.ping()  # and that is all: transactions leave nothing half done

    async def export(
        self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 32 * 1024 * 1024
    ) -> ExportPage:
        check_export(limit, max_bytes)
        return await self._read(lambda conn: exporting.export(conn, part, cursor, limit, max_bytes))

    async def begin_import(self, source: str) -> ImportPlace:
        check_label("source", source)
        note = await self._read(importnote.read_note)
        if note is None:
            await require_empty(self)
            place = ImportPlace(PARTS[0], None)
            await self._write(lambda tx: importnote.write_note(tx, source, place))
            return place
        if note[0] != source:
            raise Conflict(f"the store is being filled from {note[0]}: finish that, or name a store that is empty")
        return note[1]

    async def import_records(self, part: Part, records: Sequence[Record], *, after: ImportPlace, now_ms: int) -> None:
        check_records(part, records)
        await self._write(lambda tx: importing.import_records(tx, records, after, now_ms))

    async def end_import(self) -> None:
        await self._write(importnote.remove_note)

"""The verbs of export and import on SQLite."""

from collections.abc import Sequence
from functools import partial

from store.protocol.transfer import StoreTransfer
from store.sqlite.file.core import SqliteCore
from store.sqlite.queue import families
from store.sqlite.records import exporting, import_note, importing
from store.transfers import require_empty, require_same
from store.values.transfer import PARTS, ExportPage, ImportPlace, Part, Record


class SqliteTransfer(SqliteCore, StoreTransfer):
    async def begin_export(self, *, now_ms: int) -> None:
        while parents := await self._read(families.noted):  # and that is all that transactions leave half done
            await self._write(partial(families.carry_on, parents=parents, now_ms=now_ms), bulk=True)

    async def export(
        self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 32 * 1024 * 1024
    ) -> ExportPage:
        return await self._read(lambda conn: exporting.export(conn, part, cursor, limit, max_bytes))

    async def begin_import(self, source: str) -> ImportPlace:
        note = await self._read(import_note.read_note)
        if note is None:
            await require_empty(self)
            place = ImportPlace(PARTS[0], None)
            await self._write(lambda tx: import_note.write_note(tx, source, place))
            return place
        require_same(source, note[0])
        return note[1]

    async def import_records(self, part: Part, records: Sequence[Record], *, after: ImportPlace, now_ms: int) -> None:
        await self._write(lambda tx: importing.import_records(tx, records, after, now_ms))

    async def end_import(self) -> None:
        await self._write(import_note.remove_note)

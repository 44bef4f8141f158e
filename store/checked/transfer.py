"""The verbs of export and import, checked."""

from collections.abc import Sequence

from store.checked.core import CheckedCore
from store.checks import check_time
from store.names import check_label
from store.protocol.transfer import StoreTransfer
from store.transfers import check_export, check_records
from store.values.transfer import ExportPage, ImportPlace, Part, Record


class CheckedTransfer(CheckedCore, StoreTransfer):
    async def begin_export(self, *, now_ms: int) -> None:
        check_time("now_ms", now_ms)
        await self._back.begin_export(now_ms=now_ms)

    async def export(
        self, part: Part, *, cursor: str | None = None, limit: int = 500, max_bytes: int = 32 * 1024 * 1024
    ) -> ExportPage:
        check_export(limit, max_bytes)
        return await self._back.export(part, cursor=cursor, limit=limit, max_bytes=max_bytes)

    async def begin_import(self, source: str) -> ImportPlace:
        check_label("source", source)
        return await self._back.begin_import(source)

    async def import_records(self, part: Part, records: Sequence[Record], *, after: ImportPlace, now_ms: int) -> None:
        check_records(part, records)
        check_time("now_ms", now_ms)
        await self._back.import_records(part, records, after=after, now_ms=now_ms)

    async def end_import(self) -> None:
        await self._back.end_import()

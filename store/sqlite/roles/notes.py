"""Notes on SQLite. They stand in the table of values written once, under a name that no tenant can have."""

from typing import Final

from store.protocol.notes import NoteBoard
from store.sqlite.file.core import SqliteCore
from store.sqlite.file.writer import Tx

_NOBODY: Final = ""


class SqliteNotes(SqliteCore, NoteBoard):
    async def put_note(self, key: str, value: bytes, *, expires_ms: int) -> None:
        sql = "INSERT OR REPLACE INTO once (tenant, key, value, expires) VALUES (?, ?, ?, ?)"

        def work(tx: Tx) -> None:
            tx.conn.execute(sql, (_NOBODY, key, value, expires_ms))

        await self._write(work)

    async def get_note(self, key: str, *, now_ms: int) -> bytes | None:
        sql = "SELECT value FROM once WHERE tenant = ? AND key = ? AND expires > ?"
        found = await self._read(lambda conn: conn.execute(sql, (_NOBODY, key, now_ms)).get)
        return None if found is None else bytes(found)

    async def drop_note(self, key: str) -> bool:

        def work(tx: Tx) -> bool:
            before = tx.conn.total_changes()
            tx.conn.execute("DELETE FROM once WHERE tenant = ? AND key = ?", (_NOBODY, key))
            return tx.conn.total_changes() > before

        return await self._write(work)

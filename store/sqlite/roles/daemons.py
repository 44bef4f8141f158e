"""The daemons' verbs on SQLite."""

from store.protocol.daemons import DaemonRegister
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import daemons
from store.values.records import Daemon


class SqliteDaemons(SqliteCore, DaemonRegister):
    async def reserve_sysid(self, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        return await self._write(lambda tx: daemons.reserve_sysid(tx, info, lease_ms, now_ms))

    async def renew_sysid(self, sysid: str, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        return await self._write(lambda tx: daemons.renew_sysid(tx, sysid, info, lease_ms, now_ms))

    async def release_sysid(self, sysid: str) -> None:
        await self._write(lambda tx: daemons.release_sysid(tx, sysid))

    async def forget_daemons(self, *, skip: int) -> int:
        return await self._write(lambda tx: daemons.forget_daemons(tx, skip))

    async def list_daemons(self, *, now_ms: int) -> list[Daemon]:
        return await self._read(lambda conn: daemons.list_daemons(conn, now_ms))

    async def set_daemon_paused(self, sysid: str, *, paused: bool) -> None:
        await self._write(lambda tx: daemons.set_daemon_paused(tx, sysid, paused=paused))

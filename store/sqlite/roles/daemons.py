"""The daemons' verbs on SQLite."""

from store.checks import check_range, check_text
from store.names import MAX_SYSIDS_SKIPPED, check_owner
from store.protocol.daemons import DaemonRegister
from store.sqlite import daemons
from store.sqlite.core import SqliteCore
from store.values.records import Daemon


class SqliteDaemons(SqliteCore, DaemonRegister):
    async def reserve_sysid(self, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        check_text("info", info)
        check_range("lease_ms", lease_ms, 1, float("inf"))
        return await self._write(lambda tx: daemons.reserve_sysid(tx, info, lease_ms, now_ms))

    async def renew_sysid(self, sysid: str, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        check_owner(sysid)
        check_text("info", info)
        check_range("lease_ms", lease_ms, 1, float("inf"))
        return await self._write(lambda tx: daemons.renew_sysid(tx, sysid, info, lease_ms, now_ms))

    async def release_sysid(self, sysid: str) -> None:
        check_owner(sysid)
        await self._write(lambda tx: daemons.release_sysid(tx, sysid))

    async def forget_daemons(self, *, skip: int) -> int:
        check_range("skip", skip, 0, MAX_SYSIDS_SKIPPED)
        return await self._write(lambda tx: daemons.forget_daemons(tx, skip))

    async def list_daemons(self, *, now_ms: int) -> list[Daemon]:
        return await self._read(lambda conn: daemons.list_daemons(conn, now_ms))

    async def set_daemon_paused(self, sysid: str, *, paused: bool) -> None:
        check_owner(sysid)
        await self._write(lambda tx: daemons.set_daemon_paused(tx, sysid, paused=paused))

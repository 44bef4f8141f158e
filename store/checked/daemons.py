"""The daemons' verbs, checked."""

from store.checked.core import CheckedCore
from store.checks import check_lease, check_range, check_text, check_time
from store.names import MAX_SYSIDS_SKIPPED, check_owner
from store.protocol.daemons import DaemonRegister
from store.values.records import Daemon


class CheckedDaemons(CheckedCore, DaemonRegister):
    async def reserve_sysid(self, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        check_text("info", info)
        check_lease(lease_ms, now_ms)
        return await self._back.reserve_sysid(info=info, lease_ms=lease_ms, now_ms=now_ms)

    async def renew_sysid(self, sysid: str, *, info: str, lease_ms: int, now_ms: int) -> Daemon:
        check_owner(sysid)
        check_text("info", info)
        check_lease(lease_ms, now_ms)
        return await self._back.renew_sysid(sysid, info=info, lease_ms=lease_ms, now_ms=now_ms)

    async def release_sysid(self, sysid: str) -> None:
        check_owner(sysid)
        await self._back.release_sysid(sysid)

    async def forget_daemons(self, *, skip: int) -> int:
        check_range("skip", skip, 0, MAX_SYSIDS_SKIPPED)
        return await self._back.forget_daemons(skip=skip)

    async def list_daemons(self, *, now_ms: int) -> list[Daemon]:
        check_time("now_ms", now_ms)
        return await self._back.list_daemons(now_ms=now_ms)

    async def set_daemon_paused(self, sysid: str, *, paused: bool) -> None:
        check_owner(sysid)
        await self._back.set_daemon_paused(sysid, paused=paused)

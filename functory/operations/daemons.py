"""Daemons: what each tells the others about itself, which are alive, pause, resume and quit."""

from contextlib import suppress
from typing import Any

import msgspec

from functory.operations.audit import audit
from functory.operations.service import Service
from store.base import Daemon
from store.names import check_owner


class DaemonInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a daemon tells the others about itself. languages is None when it does not say what it runs."""

    version: str = ""
    host: str = ""
    pid: int = 0
    role: str = ""
    isolation: str = ""
    languages: list[str] | None = None
    unable: dict[str, str] = {}
    """Languages that are installed and do not start, with the reason."""
    no_packages: dict[str, str] = {}
    """Languages for which it gets no packages, with the reason."""
    problems: dict[str, str] = {}
    journal_backlog_bytes: float = 0
    gauges: dict[str, float] = {}
    wake_at: str = ""
    """Where it receives what other daemons tell it (`functory.peers`); empty: it does not."""
    wake_key: str = ""
    """What that is sealed with: for the daemons of the store alone."""


def encode_info(info: DaemonInfo) -> str:
    return msgspec.json.encode(info).decode()


def info_of(daemon: Daemon) -> DaemonInfo:
    """A daemon's info. Fields that cannot be read keep their defaults: another version may have written them."""
    raw = raw_info_of(daemon)
    if not isinstance(raw, dict):
        return DaemonInfo()
    known: dict[str, Any] = {}
    for field in msgspec.structs.fields(DaemonInfo):
        if field.name in raw:
            with suppress(msgspec.ValidationError):
                known[field.name] = msgspec.convert(raw[field.name], field.type)
    return DaemonInfo(**known)


def raw_info_of(daemon: Daemon) -> Any:
    """A daemon's info as it stands, with fields that this version does not know; the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(daemon.info) if daemon.info else None
    except (msgspec.DecodeError, RecursionError):
        return daemon.info


def shown_info_of(daemon: Daemon) -> Any:
    """The same, for people: without the key."""
    raw = raw_info_of(daemon)
    return {name: value for name, value in raw.items() if name != "wake_key"} if isinstance(raw, dict) else raw


async def list_daemons(service: Service) -> list[Daemon]:
    """The daemons that are alive."""
    return await service.store.list_daemons(now_ms=service.now_ms())


async def pause_daemon(service: Service, actor: str, sysid: str, *, paused: bool) -> None:
    """Pause or resume any daemon of the store: this one at once, another in a moment. Raises NotFound."""
    check_owner(sysid)
    if sysid == service.control.sysid:
        if paused:
            service.control.pause()
        else:
            service.control.resume()
    await service.store.set_daemon_paused(sysid, paused=paused)
    service.control.daemons_changed()
    await audit(service, actor, "daemon.pause" if paused else "daemon.resume", sysid=sysid)


async def quit_daemon(service: Service, actor: str) -> None:
    """End this daemon as SIGTERM does."""
    await audit(service, actor, "daemon.quit", sysid=service.control.sysid)
    service.control.quit()

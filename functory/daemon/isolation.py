"""Which isolation tenants get on this daemon. The operator sets a minimum; an attack on the machine's own
sandbox proves the level."""

import asyncio
import logging
from pathlib import Path
from typing import Final, NamedTuple

from functory.config import Settings
from runner.errors import IsolationError
from runner.launch import Child, Launcher, LaunchSpec, Level
from runner.plain import PlainLauncher
from runner.sandbox.probe import proven_launcher

log = logging.getLogger("functory.isolation")

_CONTAINER_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


class Isolation(NamedTuple):
    launcher: Launcher
    wanted: Level
    """The minimum that the operator asked for."""
    refusal: str = ""
    """Why tenants' code does not run here; empty when it does."""

    @property
    def level(self) -> Level:
        return self.launcher.level


async def choose_isolation(settings: Settings) -> Isolation:
    """Attack the sandbox briefly, and compare the level that it proved with the minimum."""
    wanted = Level[await asyncio.to_thread(minimum, settings.min_isolation)]
    if wanted == Level.L0:
        if settings.role == "api":  # it runs no tenant's code
            return Isolation(PlainLauncher(), wanted)
        log.warning("isolation.off", extra={"because": "all_tenants_trusted and min_isolation=L0"})
        return Isolation(PlainLauncher(), wanted)
    try:
        launcher, report = await proven_launcher(wanted, memory_bytes=settings.max_contexts_memory_bytes)
    except IsolationError as error:
        log.error("isolation.too_low", extra={"reason": str(error)})  # noqa: TRY400 (the reason is all there is)
        return Isolation(_NoLauncher(str(error)), wanted, str(error))
    log.info("isolation.reached", extra={"level": report.level.name, "minimum": wanted.name})
    return Isolation(launcher, wanted)


def minimum(setting: str) -> str:
    """The minimum in effect. `auto` means L2, or L1 inside a container, which seldom allows namespaces."""
    if setting != "auto":
        return setting
    return "L1" if any(mark.exists() for mark in _CONTAINER_MARKS) else "L2"


class _NoLauncher:
    """The launcher of a daemon that must not run tenants' code: it starts nothing."""

    level = Level.L0

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def start(self) -> None: ...

    async def launch(self, _: LaunchSpec) -> Child:
        raise IsolationError(self._reason)

    async def close(self) -> None: ...

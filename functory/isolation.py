"""Which isolation tenants get on this daemon: what the operator asks for at least, and what an attack on the machine's
own sandbox proves."""

import asyncio
import logging
from pathlib import Path
from typing import Final, NamedTuple

from functory.config import Settings
from runner.launch import Launcher, Level
from runner.plain import PlainLauncher
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.probe import probe

log = logging.getLogger("functory.isolation")

_CONTAINER_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


class Isolation(NamedTuple):
    launcher: Launcher
    level: Level
    refusal: str
    """Why tenants' code is not run here; empty when it is."""


async def choose_isolation(settings: Settings) -> Isolation:
    """Attack the sandbox briefly and hold the level that was reached against the minimum."""
    wanted = Level[await asyncio.to_thread(minimum, settings.min_isolation)]
    if wanted == Level.L0:
        log.warning("isolation.off", extra={"because": "all_tenants_trusted and min_isolation=L0"})
        return Isolation(PlainLauncher(), Level.L0, "")
    report = await probe(brief=True, languages=("python",))  # they share one sandbox; `functory doctor` tries them all
    log.info("isolation.reached", extra={"level": report.level.name, "minimum": wanted.name})
    for verdict in report.broken:
        log.error("isolation.broken", extra={"attack": verdict.attack, "how": verdict.detail})
    refusal = ""
    if report.level < wanted:
        missing = (
            "; ".join(f"{state.layer.name.lower()}: {state.detail}" for state in report.missing)
            or "see `functory doctor`"
        )
        refusal = (
            f"this machine isolates tenants at {report.level.name}, below min_isolation={wanted.name}: no tenant code"
            f" is run. Missing: {missing}"
        )
        log.error("isolation.too_low", extra={"reason": refusal})
    return Isolation(SandboxLauncher(), report.level, refusal)


def minimum(setting: str) -> str:
    """`auto` asks for namespaces, or for less inside a container, which seldom allows them."""
    if setting != "auto":
        return setting
    return "L1" if any(mark.exists() for mark in _CONTAINER_MARKS) else "L2"

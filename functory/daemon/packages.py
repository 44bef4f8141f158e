"""The packages of handlers, made from the settings: for a daemon, and for whoever runs handlers without one."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from functory.config import Settings
from functory.daemon.isolation import Isolation
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.sandbox import BuildSandbox, BuildSettings, find_uv
from runner.packages.trees import TreeFolder

_BUILDS: Final = 2


async def open_packages(
    settings: Settings, isolation: Isolation, folder: Path, quota_of: Callable[[str], int | None] = lambda _: None
) -> Packages:
    """Trees are in `folder`."""
    uv = await asyncio.to_thread(find_uv)
    build = BuildSettings(
        index=settings.packages_index,
        wheels=settings.packages_wheels,
        builds=settings.packages_build,
        timeout_s=settings.packages_timeout_s,
        tree_bytes=settings.packages_max_bytes,
    )
    chosen = ProviderSettings(
        builds=_BUILDS,
        tree_bytes=build.tree_bytes,
        memory_bytes=build.memory_bytes,
        unavailable=_no_packages(settings, isolation, uv),
    )
    sandbox = BuildSandbox(isolation.launcher, build, uv, threads=_BUILDS + 1)
    packages = Packages(sandbox, TreeFolder(folder), chosen, quota_of)
    await packages.open()
    return packages


def _no_packages(settings: Settings, isolation: Isolation, uv: Path | None) -> str:
    """Why there are no packages here."""
    if not settings.packages:
        return "the operator has switched packages off on this daemon"
    if isolation.refusal:
        return isolation.refusal
    return "" if uv else "uv is not installed on this machine, which gets packages: pip install 'functory[packages]'"

"""The packages of handlers, made from the settings: for a daemon, and for whoever runs handlers without one."""

import asyncio
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

from functory.config import Settings
from functory.daemon.isolation import Isolation
from functory.egress.proxy import EgressProxy
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.sandbox import LISTED_IN, BuildSandbox, BuildSettings, find_uv
from runner.packages.trees import TreeFolder
from runner.resolver import Resolver
from runner.targets import Targets

_BUILDS: Final = 2
_EVERYWHERE: Final = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
"""Builds reach the hosts that the operator named, wherever these are."""


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
        hosts=settings.packages_hosts,
    )
    chosen = ProviderSettings(
        builds=_BUILDS,
        tree_bytes=build.tree_bytes,
        memory_bytes=build.memory_bytes,
        unavailable=_no_packages(settings, isolation, uv),
    )
    sandbox = BuildSandbox(isolation.launcher, build, uv, threads=_BUILDS + 1, egress=way_to_index(build))
    packages = Packages(sandbox, TreeFolder(folder), chosen, quota_of)
    await packages.open()
    return packages


def way_to_index(build: BuildSettings) -> EgressProxy:
    """The network of builds."""
    return EgressProxy(Resolver(Targets(build.index_hosts, _EVERYWHERE)), listed_in=LISTED_IN)


def _no_packages(settings: Settings, isolation: Isolation, uv: Path | None) -> str:
    """Why there are no packages here."""
    if not settings.packages:
        return "the operator has switched packages off on this daemon"
    if isolation.refusal:
        return isolation.refusal
    return "" if uv else "uv is not installed on this machine, which gets packages: pip install uv"

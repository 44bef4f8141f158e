"""The packages of handlers, made from the settings: for a daemon, and for whoever runs handlers without one."""

import asyncio
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

from functory.config import Settings
from functory.daemon.isolation import Isolation
from functory.egress.proxy import EgressProxy
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.sandbox import LISTED_IN, BuildSandbox
from runner.packages.tools import BuildSettings, Npm, Tool, Uv, find_node, find_uv
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
    build = BuildSettings(
        index=settings.packages_index,
        wheels=settings.packages_wheels,
        builds=settings.packages_build,
        timeout_s=settings.packages_timeout_s,
        tree_bytes=settings.packages_max_bytes,
        hosts=settings.packages_hosts,
        registry=settings.packages_registry,
        tarballs=settings.packages_tarballs,
    )
    tools = await asyncio.to_thread(find_tools, build)
    chosen = ProviderSettings(
        builds=_BUILDS,
        tree_bytes=build.tree_bytes,
        memory_bytes=build.memory_bytes,
        unavailable={tool.lang: _no_packages(settings, isolation) or tool.missing for tool in tools},
    )
    sandbox = BuildSandbox(isolation.launcher, build, tools, threads=_BUILDS + 1, egress=way_out(tools))
    packages = Packages(sandbox, TreeFolder(folder), chosen, quota_of)
    await packages.open()
    return packages


def find_tools(build: BuildSettings) -> tuple[Tool, ...]:
    """Reads directories: not for the event loop."""
    return Uv(build, find_uv()), Npm(build, find_node())


def way_out(tools: Iterable[Tool]) -> EgressProxy:
    """The network of builds."""
    hosts = tuple(host for tool in tools for host in tool.hosts)
    return EgressProxy(Resolver(Targets(hosts, _EVERYWHERE)), listed_in=LISTED_IN)


def _no_packages(settings: Settings, isolation: Isolation) -> str:
    """Why there are no packages here."""
    return isolation.refusal if settings.packages else "the operator has switched packages off on this daemon"

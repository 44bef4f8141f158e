"""`functory limits`: what a tenant has of what it may have. In the operator's words, too (tenants.py)."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from functory.cli.answers import counted
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show

if TYPE_CHECKING:
    from functory.client import Client
    from functory.tenant_limits import TenantLimits
    from functory.wire.scoreboard import UsageRow

_COUNTED: Final = {"max_jobs", "max_bytes", "max_handlers", "max_types"}
"""Limits that are shown with what there is."""


def add_commands(commands: Commands) -> None:
    add_remote(commands.add_parser("limits", help="what the tenant has of what it may have"), run_limits)


async def run_limits(client: "Client", arguments: argparse.Namespace) -> int:
    found = await client.limits()
    more = {name: value for name, value in given_limits(found.limits).items() if name not in _COUNTED}
    lines = [
        f"tenant  {found.tenant}{' (suspended: it can only read)' if found.suspended else ''}",
        f"stored  {stored(found.usage, found.limits)}",
        f"types   {_of(found.usage.types, found.limits.max_types, 'type')} with jobs that are not over, or paused",
        f"others  {in_words(more) or 'none'}",
    ]
    return show(arguments, found, "\n".join(lines))


def stored(usage: "UsageRow", limits: "TenantLimits") -> str:
    """What a tenant has of what it may have."""
    return ", ".join(
        [
            _of(usage.jobs, limits.max_jobs, "job"),
            _of(usage.size_bytes, limits.max_bytes, "byte"),
            _of(usage.handlers, limits.max_handlers, "handler"),
        ]
    )


def _of(count: int, most: int | None, what: str) -> str:
    return counted(count, what) if most is None else f"{count:,} of {counted(most, what)}"


def in_words(limits: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={str(value).lower()}" for name, value in limits.items())


def given_limits(limits: "TenantLimits") -> dict[str, Any]:
    names = limits.__struct_fields__
    return {name: getattr(limits, name) for name in names if getattr(limits, name) is not None}

"""Which languages this daemon runs: those whose programs are installed and whose contexts really start here.

Tried once at the start, in the sandbox that tenants get. A language that is installed and does not start is a fault of
the machine; its reason is kept and shown wherever somebody asks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from handlers.languages import LANGUAGES

log = logging.getLogger("functory.languages")


@dataclass(frozen=True, slots=True)
class Languages:
    able: frozenset[str] = frozenset()
    unable: Mapping[str, str] = field(default_factory=dict)
    """Installed, and yet no context of them starts; with the reason."""

    @property
    def trouble(self) -> str:
        return "; ".join(f"no {name} context starts: {reason}" for name, reason in self.unable.items())


async def find_languages(attempt: Callable[[str], Awaitable[str]] | None) -> Languages:
    """`attempt` starts a context of a language and returns why it could not, or "". None: see what is installed."""
    installed = await asyncio.to_thread(_installed)
    if attempt is None:
        return Languages(frozenset(installed))
    reasons = await asyncio.gather(*map(attempt, installed))
    unable = {name: reason for name, reason in zip(installed, reasons, strict=True) if reason}
    for name, reason in unable.items():
        log.error("language.unavailable", extra={"lang": name, "reason": reason})
    return Languages(frozenset(installed).difference(unable), unable)


def _installed() -> list[str]:
    return [name for name, row in LANGUAGES.items() if row.missing() is None and not row.is_external]

"""Our own cookies in a request, found by name. The others are not read: a header of 8 KB can have thousands of them,
and anybody can send it."""

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


def cookie_of(request: "web.Request", name: str) -> str | None:
    """The value of the last cookie of this name. Values of ours need no quotes; some programs add them."""
    found = _cookie(name).findall(request.headers.get("Cookie", ""))
    return found[-1].strip().strip('"') if found else None


@cache
def _cookie(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|;)[ \t]*{re.escape(name)}=([^;]*)")

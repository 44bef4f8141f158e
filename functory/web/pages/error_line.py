"""The line of a handler's body in which a run failed, read from what the run left behind.

The texts are a tenant's: what is found is a line to mark in the editor, and nothing else depends on it.
"""

import re
from typing import Final

from runner.outcome import Stopped

_IN_TRACE: Final = {
    "python": re.compile(rb'File "handler\.py", line (\d{1,6})\b'),
    "node": re.compile(rb"\bhandler\.js:(\d{1,6}):"),
    "php": re.compile(rb" in line (\d{1,6})$", re.MULTILINE),
}
_IN_LOG: Final = re.compile(rb"^handler: (?:line )?(\d{1,6}): ", re.MULTILINE)
"""What a shell prints before its own errors."""
_LOOKED_AT_BYTES: Final = 20_000


def error_line(lang: str, stopped: Stopped) -> int:
    """Counted from 1; 0 when the run ended well or the text names no line."""
    if stopped.code not in {"failed", "error"}:
        return 0
    if lang == "sh":
        found = _IN_LOG.findall(stopped.log[-_LOOKED_AT_BYTES:])
    elif lang in _IN_TRACE:
        found = _IN_TRACE[lang].findall(stopped.result[-_LOOKED_AT_BYTES:])
    else:
        found = []
    if not found:
        return 0
    return int(found[-1] if lang in {"python", "sh"} else found[0])  # the innermost: python names it last

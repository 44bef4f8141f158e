"""The line of a handler's text in which a run failed, read from what the run left behind.

The texts are a tenant's: what is found is a line to mark in the editor, and nothing else depends on it.
"""

import re
from typing import Final

from runner.outcome import Stopped

_PYTHON: Final = rb'File "%s", line (\d{1,6})\b'
_NODE: Final = rb"%s:(\d{1,6}):"
_PHP: Final = re.compile(rb" in line (\d{1,6})$", re.MULTILINE)
_SH: Final = re.compile(rb"^handler: (?:line )?(\d{1,6}): ", re.MULTILINE)
"""What a shell prints before its own errors."""
_NODE_FOLDER: Final = b"/functory/handler/"
"""Where the files of a folder are in the sandbox."""
_LOOKED_AT_BYTES: Final = 20_000


def error_line(lang: str, stopped: Stopped, file: str = "", entry: str = "") -> int:
    """Counted from 1; 0 when the run ended well or its texts name no line. Of a folder: the line of `file`, which is
    the entry or another one. php and sh do not say of which file a line is, and the entry is taken for it."""
    if stopped.code not in {"failed", "error"}:
        return 0
    result, log = stopped.result[-_LOOKED_AT_BYTES:], stopped.log[-_LOOKED_AT_BYTES:]
    name = re.escape(file.encode("utf-8", "replace"))
    found: list[bytes] = []
    if lang == "python":
        found = re.findall(_PYTHON % (name or rb"handler\.py"), result)
    elif lang == "node":
        found = re.findall(_NODE % (_NODE_FOLDER + name if name else rb"\bhandler\.js"), result)
    elif lang == "php" and file == entry:
        found = _PHP.findall(result)
    elif lang == "sh" and file == entry:
        found = _SH.findall(log)
    if not found:
        return 0
    return int(found[-1] if lang in {"python", "sh"} else found[0])  # the innermost: python names it last

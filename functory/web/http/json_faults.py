"""Why a text is not JSON, in words that fit: of half a surrogate pair near the end of a text, the decoder says that it
was truncated."""

import re
from typing import Final

_LONE: Final = re.compile(
    rb"\\u[dD](?:"
    rb"[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|"
    rb"[c-fC-F](?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F])[0-9a-fA-F]{2})"
)
"""Half a pair: a first half that no second one follows, or a second one without a first."""


def why_not_json(text: bytes, error: Exception) -> str:
    """What is wrong with a text for which the decoder raised the error."""
    found = _LONE.search(text)
    if found is None or _is_escaped(text, found.start()):
        return str(error)
    return f"{found[0].decode()} is half of a surrogate pair and no character: send both halves, or leave it out"


def _is_escaped(text: bytes, at: int) -> bool:
    """Whether the backslash there belongs to one before it: then it is a text about an escape."""
    before = text[max(0, at - 1000) : at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1

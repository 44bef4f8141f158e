"""Tenants' bytes as text that does nothing.

Ensures: the result is a bounded number of bounded lines without control characters, terminal codes, or characters that
change the direction of text or cannot be seen; each of these is left out or spelled. Templates escape HTML.
"""

import re
from typing import Final, NamedTuple

from vocabulary.terminal_codes import without_codes

MAX_BYTES: Final = 64 * 1024
MAX_LINES: Final = 1000
MAX_LINE_CHARS: Final = 2000
_LOOKED_AT_CHARS: Final = 8 * MAX_LINE_CHARS
"""Of one line, however long: most of what is shown of it comes from there."""
_HEX_BYTES: Final = 2048
_HEX_ROW: Final = 16

_TURNING: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSEEN_ALWAYS: Final = (
    r"\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufff8"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SHAPING: Final = r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\ufe00-\ufe0f"
"""What Unicode shows as nothing (Default_Ignorable_Code_Point). Some of it shapes emoji and letters of other scripts:
beside these it stays, and so does what makes a keycap of a digit or the flag of a region."""
_FLAG: Final = r"\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,7}\U000e007f"
_UNSEEN: Final = re.compile(
    rf"(?P<flag>{_FLAG})"
    rf"|(?:[{_UNSEEN_ALWAYS}]|(?<![^\x00-\x7f])(?!\ufe0f\u20e3)[{_SHAPING}])[{_UNSEEN_ALWAYS}{_SHAPING}]*"
)
"""A flag, or a run of what cannot be seen: one character of it does not hide the next."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb]")


class Shown(NamedTuple):
    """text is safe to show; notes say what was changed; raw says whether the rest is worth a download."""

    text: str
    is_hex: bool
    size_bytes: int
    notes: tuple[str, ...] = ()
    is_cut: bool = False


def show(data: bytes, size_bytes: int | None = None, *, is_log: bool = False) -> Shown:
    """Text where it is text, the first bytes in hex where it is not. `size_bytes`: of all, if `data` is its start. Of
    the lines of a log, the last ones are shown: they tell how it ended."""
    head, size_bytes = data[:MAX_BYTES], len(data) if size_bytes is None else size_bytes
    try:
        text = _decode(head, whole=len(head) == size_bytes)
    except UnicodeDecodeError:
        is_cut = size_bytes > _HEX_BYTES
        why = ("not text: shown in hex", "only the beginning is shown")
        return Shown(_hex(data[:_HEX_BYTES]), True, size_bytes, why if is_cut else why[:1], is_cut)
    notes: list[str] = []
    plain = without_codes(text)
    if plain != text:
        notes.append("terminal codes are left out")
    spelled = spell(plain)
    if spelled != plain:
        notes.append("invisible characters are spelled")
    folded, is_cut = _fold(spelled, is_log=is_log)
    is_cut = is_cut or len(head) < size_bytes
    if is_cut:
        notes.append("long parts are cut")
    return Shown(folded, False, size_bytes, tuple(notes), is_cut)


def line(text: str, max_chars: int = 300) -> str:
    """One line of text, for headings and tables."""
    plain = spell(" ".join(without_codes(text[:_LOOKED_AT_CHARS]).split()))
    return plain if len(plain) <= max_chars else plain[: max_chars - 1] + "…"


def begin(data: bytes, size_bytes: int, max_chars: int = 100) -> str:
    """One line of what was read of so many bytes: hexadecimal digits where it is not text. Empty if nothing
    was read."""
    if not data:
        return ""
    try:
        text = _decode(data, whole=len(data) == size_bytes)
    except UnicodeDecodeError:
        text = data[: max_chars // 3].hex(" ")
        return text if size_bytes <= max_chars // 3 else text + " …"
    shown = line(text, max_chars)
    return shown if len(data) == size_bytes or shown.endswith("…") else shown + "…"


def sentence(text: str) -> str:
    """One of our messages as a sentence on a page: they begin small, for logs and the command line."""
    end = "" if not text or text.endswith((".", "!", "?", ":", "…")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def line_kept(text: str) -> str:
    """One line with its blanks, for code."""
    plain = spell(without_codes(text[:_LOOKED_AT_CHARS]))
    is_whole = len(plain) <= MAX_LINE_CHARS and len(text) <= _LOOKED_AT_CHARS
    return plain if is_whole else plain[:MAX_LINE_CHARS] + " …"


def spell(text: str) -> str:
    """Control characters as pictures, and characters that change the direction of text or show nothing as their
    names."""
    text = text.replace("\r\n", "\n")
    return _CONTROL.sub(_picture, _UNSEEN.sub(_names, text))


def has_turning(text: str) -> bool:
    """Whether the text has characters that make it look different from what it is."""
    return _TURNING.search(text) is not None


def _decode(head: bytes, *, whole: bool) -> str:
    """Decode strictly, but accept that the last character may have been cut."""
    if whole:
        return head.decode()
    for cut in range(4):
        try:
            return head[: len(head) - cut].decode()
        except UnicodeDecodeError as error:
            if error.start < len(head) - 4 or cut == 3:
                raise
    raise AssertionError("the loop returns or raises")


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else _names(match)


def _names(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "flag" else "".join(f"⟨U+{ord(char):04X}⟩" for char in match[0])


def _fold(text: str, *, is_log: bool) -> tuple[str, bool]:
    lines = text.split("\n")
    is_cut = len(lines) > MAX_LINES
    kept = lines[-MAX_LINES:] if is_log else lines[:MAX_LINES]
    for number, each in enumerate(kept):
        if len(each) > MAX_LINE_CHARS:
            kept[number] = f"{each[:MAX_LINE_CHARS]} … {len(each) - MAX_LINE_CHARS:,} more characters"
            is_cut = True
    if len(lines) > MAX_LINES:
        left_out = f"… {len(lines) - MAX_LINES:,} {'earlier' if is_log else 'more'} lines"
        kept.insert(0 if is_log else MAX_LINES, left_out)
    return "\n".join(kept), is_cut


def _hex(data: bytes) -> str:
    rows = []
    for start in range(0, len(data), _HEX_ROW):
        row = data[start : start + _HEX_ROW]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"{start:06x}  {row.hex(' '):<{3 * _HEX_ROW}} {text}")
    return "\n".join(rows)

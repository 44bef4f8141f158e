"""The one line that says why a run failed, and the hash by which failures of one kind are counted together. Pure.

A line that names the error is better than the last one, which may be a note, a brace of a diff or a border: of a
traceback of Python's it is the line below the last frame, of a stack of node's the one that its text begins with.
"""

import hashlib
import re
from typing import Final

import msgspec

from functory.wire.untyped_json import decode_untyped
from runner.limits import HINTS
from vocabulary.terminal_codes import without_codes

_MESSAGE_CHARS: Final = 200
_ERROR_BYTES: Final = 8000
_ERROR_LINES: Final = 100
"""Of an error text, at most so much of its end is looked at: it is the tenant's, and everybody waits meanwhile."""
_JSON_BEGINS: Final = frozenset('"{')
_FRAME: Final = re.compile(r"\s*(?:at |#\d+ )")
_REQUIRE_STACK: Final = "Require stack:"
_REQUIRED_BY: Final = "- /"
_BELOW: Final = re.compile(rf"\s*$|{_REQUIRE_STACK}| in line \d+$")
"""What else stands below the cause, with the modules that needed one which node does not find, and the end of a text
of PHP's whose message ends with a line break."""
_BARE: Final = re.compile(r"[\w.$\\]+:\s*$")
"""An error whose message begins with a line break."""
_CAUSE: Final = "Caused by: "
_NAMED: Final = re.compile(r"(?:[\w.$\\]*(?:Error|Exception)\b|thrown: )")
_PYTHON_FRAME: Final = re.compile(r'  File "')
_GROUP_END: Final = re.compile(r"\s*\+-{20,}$")
_GROUP_BORDER: Final = re.compile(r"\s*\+[-+ ]")
_GROUP_MARGIN: Final = re.compile(r"\s*\| ?")
_SINGLE_QUOTED: Final = r"(?:(?<!\w)|(?<=\bb))'(?:[^']|(?<=\w)'(?=\w))*'(?!\w)"
"""Also b'…'. An apostrophe within a word is none of its quotes."""
_VARYING: Final = re.compile(rf'0x[0-9a-fA-F]+|\d+|{_SINGLE_QUOTED}|"[^"]*"')


def message_of(result: bytes) -> str:
    """The line of an error text that names the cause. Empty if there is none."""
    text = result[-_ERROR_BYTES:].decode("utf-8", "replace").strip()
    if text[:1] in _JSON_BEGINS:
        text = _told_in_json(text).strip() or text
    lines = without_codes(text).strip().splitlines()[-_ERROR_LINES:]
    lines = [line if line in HINTS else line[:_MESSAGE_CHARS] for line in lines]
    while lines and lines[-1] in HINTS:
        lines.pop()
    if not lines:
        return ""
    return one_line(_below_frames(_without_group(lines)) or _with_cause(lines)).strip()


def one_line(text: str) -> str:
    """The start of a text as one line."""
    start = without_codes(text[:_ERROR_BYTES])[:_MESSAGE_CHARS]
    return "".join(char if char.isprintable() else " " for char in start)


def fingerprint(exitcode: int, message: str) -> str:
    """A hash that is the same for errors that differ only in numbers, addresses and quoted values."""
    kind = _VARYING.sub("?", message)
    return hashlib.blake2s(f"{exitcode} {kind}".encode("utf-8", "replace"), digest_size=8).hexdigest()


def _without_group(lines: list[str]) -> list[str]:
    """The lines of an exception group of Python's as those of tracebacks one after the other. Others as they are."""
    if not _GROUP_END.match(lines[-1]):
        return lines
    return [_GROUP_MARGIN.sub("", line, count=1) for line in lines if not _GROUP_BORDER.match(line)]


def _below_frames(lines: list[str]) -> str:
    """The first line of the error below the last frame of a traceback of Python's, which stands above it. Its notes and
    the other lines of its message follow. Empty if there is none."""
    frames = [number for number, line in enumerate(lines) if _PYTHON_FRAME.match(line)]
    below = lines[frames[-1] + 1 :] if frames else []
    return next((_with_reason(below, number) for number, line in enumerate(below) if line[:1].strip()), "")


def _with_reason(lines: list[str], number: int) -> str:
    """That line, and if it is a name and nothing else, the next that is not blank."""
    line = lines[number]
    if not _BARE.match(line):
        return line
    return f"{line.rstrip()} {next((more.strip() for more in lines[number + 1 :] if more.strip()), '')}"


def _with_cause(lines: list[str]) -> str:
    """Of an error that is told before what caused it: its line, and that of the first cause."""
    causes = [number for number, line in enumerate(lines) if number and line.startswith(_CAUSE)]
    if not causes:
        return _above_frames(lines)
    cause = lines[causes[0]].removeprefix(_CAUSE)
    return f"{_above_frames(lines[: causes[0]])}, caused by {cause}"


def _above_frames(lines: list[str]) -> str:
    """The line that names the error whose frames stand below it, as they do in other languages, or the last line."""
    above = list(lines)
    while len(above) > 1 and (_FRAME.match(above[-1]) or _BELOW.match(above[-1]) or _is_required_by(above)):
        above.pop()
    if len(above) == len(lines):
        return above[-1]
    first = max((number for number, line in enumerate(above[:-1]) if _FRAME.match(line)), default=-1) + 1
    named = (number for number, line in enumerate(above) if number >= first and _NAMED.match(line))
    return _with_reason(above, next(named, len(above) - 1))


def _is_required_by(lines: list[str]) -> bool:
    """Whether the last is a module of node's `Require stack:`."""
    if not lines[-1].startswith(_REQUIRED_BY):
        return False
    return next((line for line in reversed(lines) if not line.startswith(_REQUIRED_BY)), "") == _REQUIRE_STACK


def _told_in_json(text: str) -> str:
    """The reason in a result that is a JSON string, or an object with `error` or `message`, as `ctx.fail` makes them.
    Empty for any other text."""
    try:
        told = decode_untyped(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return ""
    reasons = [told]
    if isinstance(told, dict):
        error = told.get("error")
        reasons = [error, error.get("message") if isinstance(error, dict) else None, told.get("message")]
    return next((reason for reason in reasons if reason and isinstance(reason, str)), "")

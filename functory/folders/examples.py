"""The examples of a handler's folder, and whether a run gave what they expect.

`examples/NAME.payload` is a payload. `NAME.expected` is the result that it must give; without it any will do.
`NAME.exitcode` is the exit code; without it one of success. One newline at the end of a payload or a result does not
count, and JSON is compared as JSON: its blanks and the order of its keys do not count either.
"""

import difflib
import json
from pathlib import Path
from typing import Final, NamedTuple

from functory.errors import InvalidInput
from runner.outcome import Stopped

FOLDER: Final = "examples"
_MAX_BYTES: Final = 16 << 20
_MAX_DIFF_CHARS: Final = 64 * 1024
"""Of each side: what is longer is compared as a whole, and only its beginning is shown."""


class Example(NamedTuple):
    name: str
    payload: bytes
    expected: bytes | None = None
    exitcode: int | None = None


def read_examples(folder: Path) -> list[Example]:
    """In order of name. Raises InvalidInput for an expectation without a payload, or a wrong exit code."""
    found = sorted((folder / FOLDER).glob("*.payload"))
    names = {path.name.removesuffix(".payload") for path in found}
    for path in sorted((folder / FOLDER).glob("*")):
        if path.suffix in {".expected", ".exitcode"} and path.stem not in names:
            raise InvalidInput(f"{path}: there is no {path.stem}.payload beside it")
    return [_read(path) for path in found]


def _read(path: Path) -> Example:
    if path.stat().st_size > _MAX_BYTES:
        raise InvalidInput(f"{path} has more than {_MAX_BYTES >> 20} MB, which no payload may")
    expected = path.with_suffix(".expected")
    exitcode = path.with_suffix(".exitcode")
    return Example(
        path.stem,
        path.read_bytes().removesuffix(b"\n"),
        expected.read_bytes() if expected.exists() else None,
        _exitcode(exitcode) if exitcode.exists() else None,
    )


def _exitcode(path: Path) -> int:
    text = path.read_text(errors="replace").strip()
    if not text.isascii() or not text.isdigit() or len(text) != 3:
        raise InvalidInput(f"{path} must hold an exit code such as 200 or 422, not {text[:40]!r}")
    return int(text)


def differences(example: Example, stopped: Stopped) -> list[str]:
    """What is not as expected, line by line; nothing if all is well."""
    lines = []
    wanted = example.exitcode
    if (wanted is None and stopped.code != "ok") or wanted not in (None, stopped.exitcode):
        lines.append(f"exit code {stopped.exitcode}, expected {'2xx' if wanted is None else wanted}")
    if example.expected is None:
        return lines if not lines else [*lines, *_text(stopped.result)[:50]]
    if _canonical(example.expected) != _canonical(stopped.result):
        old, new = _text(example.expected), _text(stopped.result)
        lines += difflib.unified_diff(old, new, "expected", "result", lineterm="")
    return lines


def _canonical(data: bytes) -> object:
    data = data.removesuffix(b"\n")
    try:
        return json.dumps(json.loads(data), sort_keys=True)
    except (ValueError, RecursionError):
        return data


def _text(data: bytes) -> list[str]:
    """JSON is shown with a line for each value, so that a difference is seen where it is."""
    data = data.removesuffix(b"\n")
    try:
        shown = json.dumps(json.loads(data), indent=2, sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = data.decode("utf-8", "backslashreplace")
    return shown[:_MAX_DIFF_CHARS].splitlines()[:1000]

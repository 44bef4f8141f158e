"""Lines as they come are looked at before they become a write: they are bytes, within the limits, and text or not.

What is found out about all of them together is a few sums, so many lines can be looked at in parts: a hundred thousand
take longer than whoever shares the event loop should wait.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeGuard

from journal.errors import InvalidWrite, LimitExceeded
from journal.options import JournalOptions

PART_LINES: Final = 5000
PART_BYTES: Final = 512 << 10
"""Up to so many are looked at in one go: about a millisecond."""

Lines = Sequence[str] | Sequence[bytes]


class Payloads(NamedTuple):
    """The lines of one write, within the limits."""

    lines: Sequence[bytes]
    size_bytes: int
    encoded_bytes: int
    """Of all of them in base64; 0 if they stand in the journal as they are."""


class _Part(NamedTuple):
    lines: list[bytes]
    longest: int
    size_bytes: int
    is_text: bool


def to_payloads(lines: Lines, options: JournalOptions) -> Payloads:
    """In one go. Raises InvalidWrite or LimitExceeded."""
    _check_number(lines, options)
    payloads = list(lines) if _are_bytes(lines) else _encoded(lines)
    joined = b"\n".join(payloads)
    size_bytes = len(joined) - len(payloads) + 1
    _check_sizes(max(map(len, payloads)), size_bytes, options)
    encoded_bytes = 0 if _is_text(joined, len(payloads)) else _encoded_bytes(payloads)
    return Payloads(payloads, size_bytes, encoded_bytes)


async def to_payloads_in_parts(lines: Lines, options: JournalOptions) -> Payloads:
    """The same, and others have their turn between two parts. Nobody may change the lines meanwhile."""
    _check_number(lines, options)
    parts: list[_Part] = []
    for some in _parts_of(lines):
        if parts:
            await asyncio.sleep(0)
        parts.append(_look_at(*some))
    size_bytes = sum([part.size_bytes for part in parts])
    _check_sizes(max([part.longest for part in parts]), size_bytes, options)
    encoded_bytes = 0
    for part in () if all(part.is_text for part in parts) else parts:
        if encoded_bytes:
            await asyncio.sleep(0)
        encoded_bytes += _encoded_bytes(part.lines)
    return Payloads(list(chain.from_iterable([part.lines for part in parts])), size_bytes, encoded_bytes)


def check_payloads(lines: Lines, options: JournalOptions) -> None:
    """The limits of a write, for lines that are not written now or not together."""
    _check_number(lines, options)
    longest = size_bytes = 0
    for some, its_longest in _parts_of(lines):
        longest, size_bytes = max(longest, its_longest), size_bytes + sum(map(len, some))
    _check_sizes(longest, size_bytes, options)


def is_much(lines: int, size_bytes: int) -> bool:
    """Whether so many lines should be looked at in parts."""
    return lines > PART_LINES or size_bytes > PART_BYTES


def _check_number(lines: Lines, options: JournalOptions) -> None:
    if isinstance(lines, (str, bytes)):
        raise InvalidWrite("lines must be a sequence of payloads, not a single one: wrap it in a list")
    if not lines:
        raise InvalidWrite("a write needs at least one line")
    if len(lines) > options.max_batch_lines:
        raise LimitExceeded("the number of lines in one write", len(lines), "max_batch_lines", options.max_batch_lines)


def _check_sizes(longest: int, size_bytes: int, options: JournalOptions) -> None:
    if longest > options.max_payload_bytes:
        raise LimitExceeded("a payload's size in bytes", longest, "max_payload_bytes", options.max_payload_bytes)
    if size_bytes > options.max_batch_bytes:
        raise LimitExceeded("the payloads' size in bytes", size_bytes, "max_batch_bytes", options.max_batch_bytes)


def _parts_of(lines: Lines) -> Iterator[tuple[list[bytes], int]]:
    """Each with the length of its longest line."""
    for start in range(0, len(lines), PART_LINES):
        some = lines[start : start + PART_LINES]
        yield from _halves_of(list(some) if _are_bytes(some) else _encoded(some))


def _halves_of(lines: list[bytes]) -> Iterator[tuple[list[bytes], int]]:
    """All of them if they are not too large together; halves of them otherwise, down to single lines."""
    count, longest = len(lines), max(map(len, lines))
    if count == 1 or count * longest <= PART_BYTES or sum(map(len, lines)) <= PART_BYTES:
        yield lines, longest
        return
    yield from _halves_of(lines[: count // 2])
    yield from _halves_of(lines[count // 2 :])


def _look_at(lines: list[bytes], longest: int) -> _Part:
    joined = b"\n".join(lines)
    return _Part(lines, longest, len(joined) - len(lines) + 1, _is_text(joined, len(lines)))


def _encoded_bytes(lines: Sequence[bytes]) -> int:
    return sum([(len(line) + 2) // 3 * 4 + 1 for line in lines])


def _are_bytes(lines: Lines) -> TypeGuard[Sequence[bytes]]:
    """In one look at all of them: half the time of looking at each."""
    return set(map(type, lines)) == {bytes}


def _encoded(lines: Lines) -> list[bytes]:
    try:
        return [line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass") for line in lines]
    except AttributeError:
        raise InvalidWrite("each line must be str or bytes") from None


def _is_text(joined: bytes, lines: int) -> bool:
    """Whether so many lines with ends between them may stand as they are, and read well in `less` and `grep`."""
    if joined.count(b"\n") != lines - 1 or b"\0" in joined:
        return False
    if joined.isascii():
        return True
    try:
        joined.decode()
    except UnicodeDecodeError:
        return False
    return True

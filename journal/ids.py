"""Job ids: `20261114T235959123Z-a7-00001f`, the UTC time in milliseconds, the sysid, and a counter.

Ensures: ids of one source are strictly increasing, also when the clock steps back and, given the right floor, over
restarts. Two sources with different sysids never make the same id. The text sorts as the time does.
"""

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, overload

from journal.errors import InvalidWrite
from vocabulary.names import SYSID, is_sysid
from vocabulary.time_text import compact_time, to_ms

COUNTER_LIMIT: Final = 1 << 24
_ID: Final = re.compile(rf"(\d{{4}})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{{3}})Z-({SYSID})-([0-9a-f]{{6}})", re.ASCII)
_LOW_DIGITS: Final = [b"%03x" % n for n in range(1 << 12)]
"""The counter's last three digits, ready made: ids are built by the thousand without formatting any of them."""
_AT_ONCE: Final = 4096
"""Texts that are made in one go: half a millisecond."""


class IdParts(NamedTuple):
    time_ms: int
    sysid: str
    counter: int


class IdRange(NamedTuple):
    """Consecutive ids of one millisecond."""

    prefix: bytes
    """Time and sysid, up to the counter."""
    first: int
    size: int

    def pieces(self) -> list[tuple[bytes, list[bytes]]]:
        """The ids as stems and the digits that complete them."""
        found = []
        first, end = self.first, self.first + self.size
        while first < end:
            high, low = divmod(first, 1 << 12)
            digits = _LOW_DIGITS[low : low + end - first]
            found.append((self.prefix + b"%03x" % high, digits))
            first += len(digits)
        return found

    def texts(self) -> list[str]:
        ids: list[str] = []
        for stem, digits in self.pieces():
            ids += _texts(stem, digits)
        return ids


class LateTexts(Sequence[str]):
    """The ids of a range as text, made when they are asked for."""

    def __init__(self, ids: IdRange) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return self._ids.size

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        places = range(self._ids.size)[index]
        if isinstance(places, int):
            return self._some(places, 1)[0]
        if places.step == 1:
            return self._some(places.start, len(places))
        return [self._some(place, 1)[0] for place in places]

    def _some(self, start: int, size: int) -> list[str]:
        return self._ids._replace(first=self._ids.first + start, size=size).texts()

    async def made(self) -> list[str]:
        """All of them, in short steps."""
        ids: list[str] = []
        for stem, digits in self._ids.pieces():
            ids += _texts(stem, digits)
            await asyncio.sleep(0)
        return ids


def _texts(stem: bytes, digits: list[bytes]) -> list[str]:
    return (stem + (b"\n" + stem).join(digits)).decode().split("\n")


def texts_of(ids: IdRange) -> list[str] | LateTexts:
    """Those of few ids are made now: many would take longer than others should wait."""
    return ids.texts() if ids.size <= _AT_ONCE else LateTexts(ids)


class IdSource:
    """Hands out ids. `floor_ms` is the largest time that any earlier id of this sysid may carry."""

    def __init__(self, sysid: str, floor_ms: int = 0) -> None:
        if not is_sysid(sysid):
            raise InvalidWrite(f"sysid {sysid!r} must be 1 to 8 of a-z and 0-9")
        self._sysid = sysid
        self._time_ms = floor_ms
        # The floor's own millisecond counts as used up: what was given out within it is not known.
        self._counter = COUNTER_LIMIT

    @property
    def last(self) -> str:
        """No id that was given out so far is greater, and all that follow are."""
        return f"{compact_time(self._time_ms)}-{self._sysid}-{self._counter - 1:06x}"

    @property
    def time_ms(self) -> int:
        """The largest time given out, which is the floor of the source that follows this one."""
        return self._time_ms

    def take(self, count: int, now_ms: int) -> IdRange:
        """The next `count` ids."""
        if now_ms > self._time_ms:
            self._time_ms, self._counter = now_ms, 0
        elif self._counter + count > COUNTER_LIMIT:
            self._time_ms, self._counter = self._time_ms + 1, 0
        first, self._counter = self._counter, self._counter + count
        return IdRange(f"{compact_time(self._time_ms)}-{self._sysid}-".encode(), first, count)


def parse_id(text: str) -> IdParts:
    """The time, sysid and counter of an id; ValueError when it is none."""
    match = _ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a job id such as 20261114T235959123Z-a7-00001f")
    year, month, day, hour, minute, second, milli = map(int, match.groups()[:7])
    moment = datetime(year, month, day, hour, minute, second, milli * 1000, tzinfo=UTC)
    return IdParts(to_ms(moment), match[8], int(match[9], 16))

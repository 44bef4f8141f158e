"""Since when jobs wait too long, `keep_waiting`: only the time counts in which a daemon had the store.

Each look is noted in the store, for all daemons. Where no look was made for a while, there is a gap: every daemon was
off, or the store was away, or it is a backup that was restored. Jobs could not run in a gap, and it does not count.

Ensures: a job is never abandoned for a time in which nobody could have run it. With no note (a new store, one of an
earlier version, or one that was left alone for longer than the note is kept), all jobs wait from now on.
"""

from typing import Final, NamedTuple

import msgspec

from store.base import Store
from vocabulary.time_text import MAX_TIME_MS

_LOOK_EVERY_MS: Final = 600_000
"""At most, to look for jobs that waited too long: it may walk many new ones whose time lies back as far."""
_LEAST_KEPT_MS: Final = 86_400_000
"""Of what is noted: another daemon of the store may have a longer `keep_waiting`."""
_KEY: Final = "served"
_MOST_GAPS: Final = 100


class Gap(NamedTuple):
    start_ms: int
    end_ms: int


class _Note(msgspec.Struct):
    seen_ms: int
    gaps: list[Gap]


_DECODER: Final = msgspec.json.Decoder(_Note)


def waiting_before_ms(gaps: list[Gap], keep_ms: int, now_ms: int) -> int:
    """So long ago, without the gaps. These are in order, and over. Pure."""
    before_ms = now_ms - keep_ms
    for gap in reversed(gaps):
        if gap.end_ms <= before_ms:
            break
        before_ms -= gap.end_ms - gap.start_ms
    return max(before_ms, 0)


def fewer_gaps(gaps: list[Gap], most: int) -> list[Gap]:
    """As long together, and none earlier than it was: jobs may wait longer for it, and never shorter. Where the least
    is moved, a gap is put to the next one. Pure."""
    fewer = list(gaps)

    def moved(place: int) -> int:
        gap = fewer[place]
        return (gap.end_ms - gap.start_ms) * (fewer[place + 1].start_ms - gap.end_ms)

    while len(fewer) > most:
        place = min(range(len(fewer) - 1), key=moved)
        gap, later = fewer[place : place + 2]
        fewer[place : place + 2] = [Gap(later.start_ms - (gap.end_ms - gap.start_ms), later.end_ms)]
    return fewer


class ServedTime:
    def __init__(self, store: Store, keep_s: float, purge_every_s: float) -> None:
        self._store = store
        self._keep_ms = round(keep_s * 1000)
        self._every_ms = min(_LOOK_EVERY_MS, self._keep_ms // 10)
        self._gap_ms = 2 * max(self._every_ms, round(purge_every_s * 1000))
        self._kept_ms = max(self._keep_ms + 2 * self._gap_ms, _LEAST_KEPT_MS)
        """How long what is noted may count: beyond the next look, however short `keep_waiting` is."""
        self._looked_ms = 0

    async def look(self, now_ms: int) -> int:
        """Jobs that wait since before this are abandoned; 0 while it is too early to look again. Raises
        StoreUnavailable."""
        if abs(now_ms - self._looked_ms) < self._every_ms:
            return 0
        gaps = await self._gaps(now_ms)
        note = msgspec.json.encode(_Note(now_ms, gaps))
        await self._store.put_note(_KEY, note, expires_ms=min(now_ms + self._kept_ms, MAX_TIME_MS))
        self._looked_ms = now_ms
        return waiting_before_ms(gaps, self._keep_ms, now_ms)

    async def _gaps(self, now_ms: int) -> list[Gap]:
        """Those that may count, and the one that is over with this look, if there is one."""
        text = await self._store.get_note(_KEY, now_ms=now_ms)
        try:
            note = _Note(0, []) if text is None else _DECODER.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # of another version
            note = _Note(0, [])
        known = [Gap(gap.start_ms, min(gap.end_ms, now_ms)) for gap in note.gaps if gap.start_ms < now_ms]
        if now_ms - note.seen_ms > self._gap_ms:
            known.append(Gap(note.seen_ms, now_ms))
        oldest_ms = waiting_before_ms(known, self._kept_ms, now_ms)
        return fewer_gaps([gap for gap in known if gap.end_ms > oldest_ms], _MOST_GAPS)

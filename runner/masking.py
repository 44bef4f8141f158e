"""Values that must not leave a context are replaced by `***` in all that it says: results, logs, errors, progress.

This is a guard against accidents, and no wall: the code that was given a secret can write it in a way that nobody
recognises. Looked for are the value itself and the forms that programs usually give it (JSON, repr, URL, base64 in
its three alignments, hex, the lines of a value with several). Values under MIN_CHARS are left alone: they would turn
up by chance. Every search is for a fixed text, so the time is linear in the text, whatever it is.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote, quote_plus

from runner import outcome
from runner.outcome import Stopped, size_bytes
from runner.protocol import NewJob

MASK: Final = b"***"
MIN_CHARS: Final = 6
_MIN_LINE: Final = 8
_MIN_BASE64: Final = 7
_DROPPED: Final = b" bytes before this were dropped]\n"
_MOST_NOTE: Final = 32
_AT_ONCE_BYTES: Final = 64 * 1024
"""So much is searched on the event loop; what is bigger, beside it."""


class Masker:
    def __init__(self, values: Iterable[str]) -> None:
        found = {form for value in values for form in _forms(value) if len(form) >= MIN_CHARS}
        self._forms = tuple(sorted(found, key=len, reverse=True))  # the longest first: one may contain another
        self.longest = max(map(len, self._forms), default=0)

    def hide(self, data: bytes) -> bytes:
        for form in self._forms:
            if form in data:
                data = data.replace(form, MASK)
        return data

    def hide_cut(self, data: bytes) -> bytes:
        """As `hide`, for a text of which only a part was kept: a value may have lost its beginning or its end."""
        data = self.hide(data)
        for form in self._forms:
            data = _without_end_of(form, data)
            data = _without_end_of(form[::-1], data[::-1])[::-1]
        return data

    def hide_in(self, stopped: Stopped) -> Stopped:
        """All that a job left."""
        hide_result = self.hide_cut if stopped.exitcode >= outcome.BROKEN else self.hide
        masked = stopped._replace(
            result=hide_result(stopped.result),
            log=self._hide_in_log(stopped.log) if stopped.log else b"",
            carried=None if stopped.carried is None else self.hide(stopped.carried),
        )
        if not stopped.new_jobs:
            return masked
        if any(self.hide(new.type.encode()) != new.type.encode() for new in stopped.new_jobs):
            text = b"made a new job whose type contains the value of a secret"
            return masked._replace(
                code=outcome.name_of(outcome.BROKEN), exitcode=outcome.BROKEN, result=text, new_jobs=(), carried=None
            )
        return masked._replace(new_jobs=tuple(map(self._hide_in_new, stopped.new_jobs)))

    def _hide_in_log(self, log: bytes) -> bytes:
        """Of a long log the end is kept, after a note of ours."""
        note, mark, rest = log.partition(_DROPPED)
        return note + mark + self.hide_cut(rest) if mark and len(note) < _MOST_NOTE else self.hide_cut(log)

    def _hide_in_new(self, new: NewJob) -> NewJob:
        options = self.hide(new.options.encode()).decode() if new.options else ""
        return new._replace(payload=self.hide(new.payload), options=options)


class MaskedReports:
    """Passes on how jobs stopped, in order, with everything masked. What is large is searched in a thread meanwhile, so
    that no tenant's results hold up the loop; `finish` waits for that."""

    def __init__(self, deliver: Callable[[Sequence[Stopped]], None], max_bytes: int) -> None:
        self.masker: Masker | None = None
        self._deliver = deliver
        self._max_bytes = max_bytes
        self._waiting: deque[list[Stopped]] = deque()
        self._waiting_bytes = 0
        self._task: asyncio.Task[None] | None = None

    def put(self, stopped: Sequence[Stopped]) -> None:
        if self.masker is None:
            self._deliver(stopped)
            return
        large = sum(map(size_bytes, stopped))
        if not self._waiting and large <= _AT_ONCE_BYTES:
            self._deliver(list(map(self.masker.hide_in, stopped)))
            return
        self._waiting.append([self._bounded(one) for one in stopped])
        if self._task is None:
            self._task = asyncio.create_task(self._work(self.masker), name="mask results")

    async def finish(self) -> None:
        """All that was put has been passed on, also if this is cancelled."""
        try:
            if self._task is not None:
                await self._task
        finally:
            while self._waiting and self.masker is not None:  # only when it was cancelled
                self._deliver(list(map(self.masker.hide_in, self._waiting.popleft())))

    def _bounded(self, one: Stopped) -> Stopped:
        """What waits is held in memory: all of it together may be as big as what one job may leave."""
        self._waiting_bytes += size_bytes(one)
        if self._waiting_bytes <= self._max_bytes:
            return one
        self._waiting_bytes -= size_bytes(one)
        why = f"the jobs of a batch left more than {self._max_bytes >> 20} MB in which secrets are looked for: "
        return outcome.too_big(one, f"{why}lower max_batch")._replace(log=b"")

    async def _work(self, masker: Masker) -> None:
        while self._waiting:
            stopped = self._waiting[0]
            masked = await asyncio.to_thread(lambda rows: list(map(masker.hide_in, rows)), stopped)
            self._waiting.popleft()
            self._waiting_bytes -= sum(map(size_bytes, stopped))
            self._deliver(masked)
        self._task = None


def _forms(value: str) -> Iterator[bytes]:
    if len(value) < MIN_CHARS:
        return
    data = value.encode("utf-8", "surrogateescape")
    yield data
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value)):
        yield text[1:-1].encode("utf-8", "surrogateescape")
        yield text[1:-1].replace("/", "\\/").encode("utf-8", "surrogateescape")  # as php writes it
    yield quote(data, safe="").encode()
    yield quote(data).encode()
    yield quote_plus(data).encode()
    yield data.hex().encode()
    for offset in range(3):  # by what stands before it
        yield from _base64_forms(data, offset)
    lines = [line.strip() for line in value.splitlines()]
    yield from (line.encode("utf-8", "surrogateescape") for line in lines if len(line) >= _MIN_LINE)


def _base64_forms(data: bytes, offset: int) -> Iterator[bytes]:
    """The characters that depend on nothing but the value, if `offset` bytes stand before it."""
    encoded = base64.b64encode(bytes(offset) + data)
    core = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
    if len(core) >= _MIN_BASE64:
        yield core
        yield core.replace(b"+", b"-").replace(b"/", b"_")


def _without_end_of(form: bytes, data: bytes) -> bytes:
    """If the data begins with the end of `form`, with at least MIN_CHARS of it: the mask instead."""
    head = data[:MIN_CHARS]
    at = form.find(head, 1) if len(head) == MIN_CHARS else -1
    while at >= 0:
        if data.startswith(form[at:]):
            return MASK + data[len(form) - at :]
        at = form.find(head, at + 1)
    return data

"""Values that must not leave a context are replaced by `***` in all that it says: results, logs, errors, progress.

This is a guard against accidents, and no wall: the code that was given a secret can write it in a way that nobody
recognises. Looked for are the value itself and the forms that programs usually give it (secret_forms.py). Values
under MIN_CHARS are left alone: they would turn up by chance.

Ensures: the time is linear in the text, whatever the text and the values are (form_search.py). Where it would not be,
the whole text is replaced: the tenant made both.
"""

import abc
import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from runner import outcome
from runner.flow import Flow
from runner.form_search import KEY_BYTES, FormSearch, Span, merged
from runner.form_tree import Budget, TooCostly
from runner.outcome import Stopped, held_bytes, size_bytes
from runner.secret_forms import forms_of
from runner.wrapped_text import LONGEST_BREAK, SHORTEST_LINE, blocks_in
from vocabulary.new_job import NewJob

MASK: Final = b"***"
_AT_ONCE_BYTES: Final = 16 * 1024
"""So much is searched on the event loop; what is bigger, beside it."""
_AT_ONCE_STEPS: Final = 4000
"""When so many steps were taken, what is left is searched beside it, too: about a millisecond."""
_FEW: Final = 16
"""Jobs between two looks at the steps."""
_IN_A_TURN_BYTES: Final = 64 * 1024
"""So much of what several jobs left is searched before others have their turn."""
_LONG_BYTES: Final = 256 * 1024
"""To search more may take a second. It has turns of its own, for which what is shorter does not wait."""


class Hider(abc.ABC):
    """Puts the mask in place of values in a text, which may have lost its beginning or its end."""

    longest: int
    """So many bytes a form of a value may have, with line breaks."""

    def hide(self, data: bytes) -> bytes:
        return self._hide(data)

    def hide_cut(self, data: bytes) -> bytes:
        """As `hide`, for a text of which only a part was kept: a value may have lost its beginning or its end."""
        return self._hide(data, cut_begin=True, cut_end=True)

    def hide_end(self, data: bytes) -> bytes:
        """As `hide`, for the end of a text: a value may have lost its beginning."""
        return self._hide(data, cut_begin=True)

    def _hide(self, data: bytes, *, cut_begin: bool = False, cut_end: bool = False) -> bytes:
        """Most logs are too short to be searched at all."""
        return data if len(data) < KEY_BYTES else self._search(data, cut_begin=cut_begin, cut_end=cut_end)

    @abc.abstractmethod
    def _search(self, data: bytes, *, cut_begin: bool, cut_end: bool) -> bytes: ...


class Masker(Hider):
    def __init__(self, values: Iterable[str]) -> None:
        self._forms = FormSearch(forms_of(values))
        self.longest = self._forms.longest + LONGEST_BREAK * (self._forms.longest // SHORTEST_LINE)
        self.size_bytes = self._forms.size_bytes
        self.steps = 0
        """Taken in all searches so far, but for those of a LiveMasker (search_accounts.py)."""

    def _search(self, data: bytes, *, cut_begin: bool, cut_end: bool) -> bytes:
        budget = Budget(len(data))
        try:
            return self.hide_within(budget, data, cut_begin=cut_begin, cut_end=cut_end)
        finally:
            self.steps += budget.taken()

    def hide_within(self, budget: Budget, data: bytes, *, cut_begin: bool, cut_end: bool) -> bytes:
        """Nothing but the mask is left of a text that would take more."""
        try:
            spans = self._forms.spans(data, budget, cut_begin=cut_begin, cut_end=cut_end)
            spans = merged([*spans, *self._wrapped(data, budget, cut_begin=cut_begin, cut_end=cut_end)])
        except TooCostly:
            return MASK + b"\n" if data.endswith(b"\n") else MASK
        if not spans:
            return data
        starts = [0, *(span.end for span in spans)]
        ends = [*(span.start for span in spans), len(data)]
        return MASK.join(data[start:end] for start, end in zip(starts, ends, strict=True))

    def _wrapped(self, data: bytes, budget: Budget, *, cut_begin: bool, cut_end: bool) -> Iterator[Span]:
        """What is found if lines of base64 are joined."""
        for block in blocks_in(data, cut_begin=cut_begin):
            is_begun, is_ended = cut_begin and block.start == 0, cut_end and block.end == len(data)
            for start, end in self._forms.spans(block.text, budget, cut_begin=is_begun, cut_end=is_ended):
                yield Span(block.place_of(start), block.place_of(end - 1) + 1)

    def hide_in(self, stopped: Stopped) -> Stopped:
        """All that a job left."""
        hide_result = self.hide_cut if stopped.exitcode >= outcome.BROKEN else self.hide
        masked = stopped._replace(
            result=hide_result(stopped.result),
            log=self.hide_cut(stopped.log),
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

    def _hide_in_new(self, new: NewJob) -> NewJob:
        return new._replace(payload=self.hide(new.payload), options=self._hide_in_options(new.options))

    def _hide_in_options(self, options: str) -> str:
        """They are decoded before they are stored, so they are searched as they will be then, too."""
        text = self.hide(options.encode()).decode()
        return "&".join(map(self._hide_in_option, text.split("&"))) if "%" in text or "+" in text else text

    def _hide_in_option(self, option: str) -> str:
        parts = [unquote_to_bytes(part.replace("+", " ")) for part in option.split("=", 1)]
        masked = [self.hide(part) for part in parts]
        return option if masked == parts else "=".join(quote(part, safe="*") for part in masked)


class SearchTurns:
    def __init__(self) -> None:
        self._long, self._short = asyncio.Lock(), asyncio.Lock()

    def of(self, size_bytes: int) -> asyncio.Lock:
        """Whose holder may search so much."""
        return self._long if size_bytes > _LONG_BYTES else self._short


class MaskedReports:
    """Passes on how jobs stopped, in order, with everything masked. What is large is searched in a thread meanwhile, so
    that no tenant's results hold up the loop; `finish` waits for that. So is what is dear to search, however small it
    is, once the tenant has used up its share of the loop (search_accounts.py). What waits for it counts as held
    (flow.py), so that contexts which are faster are not read from.

    Only one thread searches long texts and one the others, whoever asks: more would add nothing but others that keep
    the interpreter from the event loop, and what a search takes of memory."""

    def __init__(
        self,
        deliver: Callable[[Sequence[Stopped]], None],
        max_bytes: int,
        turns: SearchTurns,
        flow: Flow,
        tenant: str,
    ) -> None:
        """turns: to search in a thread; the same for all."""
        self.masker: Masker | None = None
        self._deliver = deliver
        self._max_bytes = max_bytes
        self._turns = turns
        self._flow = flow
        self._searches = flow.searches
        self._tenant = tenant
        self._waiting: deque[list[Stopped]] = deque()
        self._waiting_bytes = 0
        self._task: asyncio.Task[None] | None = None

    def put(self, stopped: Sequence[Stopped]) -> None:
        if self.masker is None:
            self._deliver(stopped)
            return
        is_little = not self._waiting and sum(map(_searched_bytes, stopped)) <= _AT_ONCE_BYTES
        if is_little and not self._searches.wait_s(self._tenant):
            stopped = self._search_now(self.masker, stopped)
            if not stopped:
                return
        bounded = [self._bounded(one) for one in stopped]
        self._flow.hold(self._tenant, sum(map(held_bytes, bounded)))
        self._waiting += _in_turns(bounded)
        if self._task is None:
            self._task = asyncio.create_task(self._work(self.masker), name="mask results")

    def _search_now(self, masker: Masker, stopped: Sequence[Stopped]) -> Sequence[Stopped]:
        """Pass on as many as may be searched on the loop. Returns the others."""
        begun, masked = masker.steps, list(map(masker.hide_in, stopped[:_FEW]))
        while len(masked) < len(stopped) and masker.steps - begun <= _AT_ONCE_STEPS:
            masked += map(masker.hide_in, stopped[len(masked) : len(masked) + _FEW])
        if masker.steps > begun:
            self._searches.take(self._tenant, masker.steps - begun)
        self._deliver(masked)
        return stopped[len(masked) :]

    async def finish(self) -> None:
        """All that was put has been passed on, also if this is cancelled."""
        try:
            if self._task is not None:
                await self._task
        finally:
            while self._waiting and self.masker is not None:  # only when it was cancelled
                self._pass_on(list(map(self.masker.hide_in, self._waiting[0])))

    def _bounded(self, one: Stopped) -> Stopped:
        """What waits is held in memory: all of it together may be as big as what one job may leave."""
        self._waiting_bytes += size_bytes(one)
        if self._waiting_bytes <= self._max_bytes:
            return one
        self._waiting_bytes -= size_bytes(one)
        why = f"the jobs of a batch left more than {self._max_bytes >> 20} MB in which secrets are looked for: "
        return outcome.too_big(one, f"{why}lower max_batch")._replace(log=b"", log_dropped=0)

    async def _work(self, masker: Masker) -> None:
        while self._waiting:
            stopped, begun = self._waiting[0], masker.steps
            async with self._turns.of(sum(map(_searched_bytes, stopped))):
                masked = await asyncio.to_thread(lambda rows: list(map(masker.hide_in, rows)), stopped)
            self._searches.take(self._tenant, masker.steps - begun)
            self._pass_on(masked)
        self._task = None

    def _pass_on(self, masked: Sequence[Stopped]) -> None:
        """The first that wait. Whoever has them then counts them before they are let go here."""
        stopped = self._waiting.popleft()
        self._waiting_bytes -= sum(map(size_bytes, stopped))
        self._deliver(masked)
        self._flow.release(self._tenant, sum(map(held_bytes, stopped)))


def _in_turns(stopped: Sequence[Stopped]) -> Iterator[list[Stopped]]:
    part: list[Stopped] = []
    part_bytes = 0
    for one in stopped:
        part_bytes += (one_bytes := _searched_bytes(one))
        if part and part_bytes > _IN_A_TURN_BYTES:
            yield part
            part, part_bytes = [], one_bytes
        part.append(one)
    yield part


def _searched_bytes(stopped: Stopped) -> int:
    return held_bytes(stopped) + sum(len(new.type) for new in stopped.new_jobs)

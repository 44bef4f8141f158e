"""The source of a pulled consumer: a handler of the tenant that is asked for the head, and for the job at an index.

    {"ask": "head"}               a whole number: the last index that there is
    {"ask": "at", "index": 7}     the payload of the job at that index; a retry says that it is not there yet

The handler runs outside the queue, in the sandbox, as a try does, and waits for its turn. What it answers is the
tenant's word: bounded, checked, and never the end of a loop. SourceTrouble says what is wrong with it, for the tenant
to read.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Final

from functory.errors import FunctoryError
from functory.execution.handlers_in_force import HandlersInForce
from functory.execution.trial_runs import TrialRuns
from handlers.errors import HandlerError
from handlers.model import Handler
from runner.errors import RunnerError
from runner.outcome import Stopped
from scheduler.index_window import MAX_INDEX
from store.names import MAX_DATA_BYTES
from vocabulary.names import WORKER, type_of

_DIGITS: Final = 20
_WORDS: Final = 200

Ask = Callable[[str, bytes], Awaitable[Stopped]]
"""Run the handler of a jobtype on a payload, once, as soon as its tenant may run one more. Raises SourceTrouble."""


class SourceTrouble(Exception):
    """The source cannot be asked now, or does not answer as it must."""


class PullSource:
    def __init__(self, ask: Ask, jobtype: str) -> None:
        self._ask = ask
        self._jobtype = jobtype

    async def head(self) -> int:
        """Raises SourceTrouble."""
        result = _result(await self._ask(self._jobtype, b'{"ask":"head"}'), "head")
        text = result[: _DIGITS + 1].decode("utf-8", "replace").strip() if result is not None else ""
        if not (text.isascii() and text.isdigit()) or int(text) > MAX_INDEX:
            raise SourceTrouble(f"the source must return its head as a whole number, and not {text[:_DIGITS]!r}")
        return int(text)

    async def at(self, index: int) -> bytes | None:
        """None: it is not there yet. Raises SourceTrouble."""
        payload = json.dumps({"ask": "at", "index": index}, separators=(",", ":")).encode()
        return _result(await self._ask(self._jobtype, payload), f"index {index}")


def _result(stopped: Stopped, what: str) -> bytes | None:
    if stopped.code == "retry":
        return None
    if stopped.code != "ok":
        text = stopped.result[-_WORDS:].decode("utf-8", "replace")
        raise SourceTrouble(f"asked for {what}, the source ended with {stopped.code}: {text}")
    if len(stopped.result) > MAX_DATA_BYTES:
        raise SourceTrouble(f"asked for {what}, the source returned more than a payload may have")
    return stopped.result


def asker(handlers: HandlersInForce, trial_runs: TrialRuns) -> Ask:
    """Asks handlers on this daemon."""

    async def ask(jobtype: str, payload: bytes) -> Stopped:
        async def find() -> Handler:
            handler = await handlers.get(jobtype)
            if handler is None:
                raise SourceTrouble(f"the source {type_of(jobtype)} has no handler: register one")
            if handler.lang == WORKER:
                raise SourceTrouble("the jobs of the source are taken by workers: it needs a handler that runs here")
            return handler

        try:
            return await trial_runs.ask(jobtype, find, payload)
        except (FunctoryError, HandlerError, RunnerError) as error:
            raise SourceTrouble(f"the source cannot be asked: {error}") from error

    return ask

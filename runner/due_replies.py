"""The replies that a context owes for what it was asked, in the order of the requests.

Ensures: each reply is judged before whoever waits for it hears of it, and what is due when the context ends, or asked
for after that, is broken off: nobody waits for ever.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from runner import protocol
from runner.errors import ContextEndedError, ProtocolError
from runner.protocol import Reply, ReplyRow


class _Due(NamedTuple):
    kinds: tuple[int, ...]
    number: int
    reply: asyncio.Future[Reply]


class DueReplies:
    def __init__(self, on_answer: Callable[[Reply], None]) -> None:
        """on_answer: told of each that is right, before whoever waits for it."""
        self._on_answer = on_answer
        self.pending: deque[_Due] = deque()
        """What is due, the first in front."""
        self._is_over = False
        self._why: Exception | None = None

    def expect(self, *kinds: int, number: int) -> asyncio.Future[Reply]:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.pending.append(_Due(kinds, number, reply))
        if self._is_over:
            self.break_off(self._why)
        return reply

    def take(self, replies: list[ReplyRow]) -> list[ReplyRow]:
        """Take those that are due and judge them at once: what follows may be about the batch that waits for them.
        Returns the others. Raises ProtocolError at the first that is wrong."""
        answers = list(zip(map(Reply._make, replies), tuple(self.pending), strict=False))
        for reply, due in answers:
            _check(reply, due)
            self._on_answer(reply)
            self.pending.popleft()  # not before it was judged: if it was wrong, whoever waits for it must hear of that
            due.reply.set_result(reply)
        return replies[len(answers) :]

    def break_off(self, why: Exception | None) -> None:
        """Nothing that is due will come any more: `why` is what was wrong, or None when the context just ended."""
        self._is_over, self._why = True, why
        while self.pending:
            reply = self.pending.popleft().reply
            if not reply.done():
                reply.set_exception(why or ContextEndedError("ended"))
                reply.exception()  # seen, even if nobody waits for it


def _check(reply: Reply, due: _Due) -> None:
    if reply.kind not in due.kinds:
        raise ProtocolError("answered out of order")
    if reply.number != due.number:
        is_hello = reply.kind == protocol.HELLO
        raise ProtocolError(
            f"speaks version {reply.number} of it" if is_hello else "answered a request that was not made"
        )
    if due.reply.cancelled():  # nobody waits any more, and the jobs that came along are on their way back
        raise ProtocolError("answered too late")

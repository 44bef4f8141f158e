"""One small set of errors for what either kind of queue refuses: those of `functory.wire.refusals`.

A server's answers and the errors of a daemon in this process become these by their status, which is the same for both.
Whatever may do better a little later (the store is away, the disk is full) stays what it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from functory.errors import ClientError, InvalidInput
from functory.wire.refusals import refusal_of


@contextmanager
def refusals(answer_to: Callable[[Exception], ClientError | None]) -> Iterator[None]:
    """What the block raises, as one of these. answer_to: the answer of a server to an error, or None if it has none.
    Raises InvalidInput, NotFound, Conflict, OverLimit; anything else as it is."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        answer = answer_to(error)
        refusal = None if answer is None else refusal_of(answer)
        if refusal is None or refusal is answer:
            raise
        raise refusal from error

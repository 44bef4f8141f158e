"""One small set of errors for what either kind of queue refuses.

    InvalidInput   a value is wrong: a type, an option, a field of a handler
    NotFound       what is named does not exist: a parent
    Conflict       it is in a state in which this cannot be: a unique name whose job is running
    OverLimit      too large, or too many: a payload, a quota

A server's answers and the errors of a daemon in this process become these by their status, which is the same for both.
Whatever may do better a little later (the store is away, the disk is full) stays what it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from functory.errors import ClientError, Conflict, InvalidInput, NotFound, OverLimit, RefusedInput

_KINDS: Final[dict[int, type[ClientError]]] = {
    400: RefusedInput,
    404: NotFound,
    409: Conflict,
    413: OverLimit,
    422: RefusedInput,
    429: OverLimit,
}


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
        kind = None if answer is None else _KINDS.get(answer.status)
        if answer is None or kind is None:
            raise
        message = str(answer).removesuffix(f" ({answer.error_code})")
        raise kind(answer.status, answer.error_code, message, answer.detail, answer.retry_after_s) from error

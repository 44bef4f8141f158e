"""One small set of errors for what either kind of queue refuses.

    InvalidInput   a value is wrong: a type, an option, a field of a handler
    NotFound       what is named does not exist: a parent
    Conflict       it is in a state in which this cannot be: a unique name whose job is running
    OverLimit      too large, or too many: a payload, a quota

A server's answers and the errors of a daemon in this process become these by their status, which is the same for both.
Whatever may do better a little later (the store is away, the disk is full) stays what it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from functory.errors import ClientError, Conflict, InvalidInput, NotFound, OverLimit, RefusedInput
from functory.statuses import code_of, retry_after_s_of, status_of

_KINDS: Final[dict[int, type[ClientError]]] = {
    400: RefusedInput,
    404: NotFound,
    409: Conflict,
    413: OverLimit,
    422: RefusedInput,
    429: OverLimit,
}


@contextmanager
def refusals() -> Iterator[None]:
    """What the block raises, as one of these. Raises InvalidInput, NotFound, Conflict, OverLimit; anything else as it
    is."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        status = error.status if isinstance(error, ClientError) else status_of(error)
        kind = _KINDS.get(status)
        if kind is None:
            raise
        code = error.error_code if isinstance(error, ClientError) else code_of(error)
        detail = getattr(error, "detail", {})
        message = str(error).removesuffix(f" ({code})")
        raise kind(status, code, message, detail, retry_after_s_of(error, status)) from error

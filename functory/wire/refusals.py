"""What a client makes of an answer that is an error.

    InvalidInput   a value is wrong: a type, an option, a field of a handler
    NotFound       what is named does not exist: a job, a parent
    Conflict       it is in a state in which this cannot be: a unique name whose job is running
    OverLimit      too large, or too many: a payload, a quota

These are for who calls from a program. Anything else is the ClientError that it was.
"""

from typing import Final

import msgspec

from functory.errors import UNREADABLE, ClientError, Conflict, NotFound, OverLimit, RefusedInput
from functory.wire.base import ErrorAnswer

_KINDS: Final[dict[int, type[ClientError]]] = {
    400: RefusedInput,
    404: NotFound,
    409: Conflict,
    413: OverLimit,
    422: RefusedInput,
    429: OverLimit,
}
_PASSING: Final = frozenset({429, 502, 503, 504, 507})
_SERVER_ERROR: Final = 500


def problem(status: int, body: bytes, retry_after: str | None) -> ClientError:
    """retry_after: the header of this name."""
    retry_after_s = float(retry_after) if retry_after and retry_after.isdecimal() else None
    try:
        error = msgspec.json.decode(body, type=ErrorAnswer).error
    except msgspec.MsgspecError:
        message = f"the server answered {status} with something else than its own JSON"
        return ClientError(status, UNREADABLE, message, {}, retry_after_s)
    return ClientError(status, error.code, error.message, error.detail, retry_after_s)


def refusal_of(answer: ClientError) -> ClientError:
    """The same as one of the kinds above, by its status; otherwise the answer itself."""
    kind = _KINDS.get(answer.status)
    if kind is None:
        return answer
    message = str(answer).removesuffix(f" ({answer.error_code})")
    return kind(answer.status, answer.error_code, message, answer.detail, answer.retry_after_s)


def may_pass(answer: ClientError) -> bool:
    """Whether the same request may do better a little later. A proxy says what it likes of a server that is away."""
    return answer.status in _PASSING or (answer.status >= _SERVER_ERROR and answer.error_code == UNREADABLE)

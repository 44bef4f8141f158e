"""What the client makes of an answer that is an error."""

from typing import NamedTuple

import msgspec

from functory.errors import ClientError
from functory.wire.base import ErrorAnswer


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


def problem(answer: Answer) -> ClientError:
    status, body, after = answer
    retry_after_s = float(after) if after and after.isdecimal() else None
    try:
        error = msgspec.json.decode(body, type=ErrorAnswer).error
    except msgspec.MsgspecError:
        message = f"the server answered {status} with something else than its own JSON"
        return ClientError(status, "unreadable", message, {}, retry_after_s)
    return ClientError(status, error.code, error.message, error.detail, retry_after_s)

"""What a running job says of its progress: a small JSON value that can be shown."""

import json
from typing import Final

from runner.errors import ProtocolError

MAX_PROGRESS_BYTES: Final = 1024


def progress_of(body: bytes) -> bytes:
    """Raises ProtocolError unless it is a small JSON value that can be shown: an honest child has seen to that."""
    if len(body) > MAX_PROGRESS_BYTES:
        raise ProtocolError(f"sent progress of {len(body)} bytes")
    try:
        json.dumps(json.loads(body), ensure_ascii=False, allow_nan=False).encode()  # nor could half a surrogate pair
    except (ValueError, RecursionError):
        raise ProtocolError("sent progress that is not JSON") from None
    return body

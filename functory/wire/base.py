"""Building blocks of the wire types: bounds, texts with their encoding, the error."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from functory.errors import InvalidInput
from vocabulary.names import JOB_ID, TENANT, TYPE
from vocabulary.time_text import MAX_TIME_MS

NOT_BEFORE_A_NEWLINE: Final = r"(?!\n)"
"""In Python `$` matches there, too. It is left out where patterns are published: elsewhere `$` does not match there,
and not everybody knows a pattern that looks ahead."""


def whole(form: str) -> str:
    """The pattern of a text that has the form, from its beginning to its end."""
    return f"^{form}${NOT_BEFORE_A_NEWLINE}"


def several(names: Sequence[str]) -> str:
    """The form of one or more of the names, separated by commas."""
    name = f"({'|'.join(names)})"
    return f"{name}(,{name}){{0,{len(names) - 1}}}"


Encoding = Literal["text", "base64"]
TimeMs = Annotated[int, Meta(ge=0, le=MAX_TIME_MS, description="milliseconds UTC")]
MAX_DELAY_S: Final = 3_155_760_000
"""A hundred years."""
MAX_REPEAT_CHARS: Final = 200
DelaySeconds = Annotated[float, Meta(ge=0, le=MAX_DELAY_S)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Version = Annotated[int, Meta(ge=1, le=1 << 31)]
Label = Annotated[str, Meta(min_length=1, max_length=255, pattern=whole(r"[^\x00-\x1f\x7f]+"))]
JobId = Annotated[str, Meta(pattern=whole(JOB_ID))]
TypeName = Annotated[str, Meta(pattern=whole(TYPE))]
TenantName = Annotated[str, Meta(pattern=whole(TENANT))]
Limit = Annotated[int, Meta(ge=1, le=1000)]


class Request(Struct, forbid_unknown_fields=True):
    """Base of what callers send: a field that nobody knows is refused, so that a misspelt option is noticed."""


class Answer(Struct):
    """Base of what is answered. A reader must expect fields that later versions add."""


class Problem(Answer):
    code: str
    message: str
    detail: dict[str, Any] = field(default_factory=dict)


class ErrorAnswer(Answer):
    """Every answer with a status of 400 or more."""

    error: Problem


class Done(Answer):
    """The change is made and durable."""

    ok: bool = True


def check_text(text: str, name: str) -> str:
    """Text that can be sent: a lone surrogate cannot be encoded. Raises InvalidInput."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} holds a lone surrogate, which is not text", detail={"field": name}) from None
    return text


def to_wire(data: bytes) -> tuple[str, Encoding]:
    """Bytes for JSON: as text where that loses nothing."""
    try:
        return data.decode(), "text"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"


def from_wire(text: str, encoding: Encoding) -> bytes:
    """The way back of `to_wire`."""
    return text.encode() if encoding == "text" else b64decode(text)

"""What can be wrong with a handler that a tenant sends.

    HandlerError             code handler_error
      InvalidHandlerError    code handler_invalid   a field is missing, unknown, of the wrong kind or too big
      HandlerSyntaxError     code handler_syntax    the text of a field does not parse

Messages name the field and say what to do; they are shown to the tenant as they are.
"""

from typing import ClassVar


class HandlerError(Exception):
    """Base of all: the registration is refused and nothing was stored."""

    code: ClassVar[str] = "handler_error"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class InvalidHandlerError(HandlerError):
    code: ClassVar[str] = "handler_invalid"


class HandlerSyntaxError(HandlerError):
    """`line` and `column` count from 1 in the text that the tenant sent; 0 when the language cannot tell."""

    code: ClassVar[str] = "handler_syntax"

    def __init__(self, field: str, message: str, *, line: int = 0, column: int = 0) -> None:
        where = f"line {line}" + (f", column {column}" if column else "") + ": " if line else ""
        super().__init__(field, where + message)
        self.line = line
        self.column = column

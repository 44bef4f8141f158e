"""Answers: values as JSON, errors as `{"error": {"code", "message", "detail"}}`."""

import logging
import math
from typing import Final, NamedTuple

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from functory.errors import FunctoryError
from functory.statuses import code_of, retry_after_s_of, status_of
from functory.wire.base import ErrorAnswer, Problem
from handlers.errors import HandlerError, HandlerSyntaxError
from journal.errors import LimitExceeded
from runner.errors import ContextEndedError, PackagesMissingError, ProgramError
from store.errors import InvalidValue

log = logging.getLogger("functory.web")

_ENCODER: Final = msgspec.json.Encoder()
_HIDDEN: Final = {
    500: "something went wrong on our side; the log has it under the request's id",
    503: "the service cannot do this now: try again a little later",
    507: "the service has no room on its disk: try again later, or tell the operator",
}
"""What callers read for our own faults. The real text may name files and hosts; it goes to the log."""

_SHOWN: Final = (FunctoryError, ContextEndedError, ProgramError, PackagesMissingError)
"""Errors whose text is for callers: how a context of a handler ended or never began, or why it has no packages."""


JSON_HEADERS: Final = CIMultiDict(
    {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    }
)
"""The headers of every answer. Nothing is cached, framed, sniffed or run."""


def answer(body: bytes, content_type: str, status: int = 200) -> web.Response:
    headers = JSON_HEADERS.copy()
    headers["Content-Type"] = content_type
    return web.Response(body=body, status=status, headers=headers)


def json_bytes(body: bytes, status: int = 200) -> web.Response:
    """An answer with JSON that is encoded already."""
    return web.Response(body=body, status=status, headers=JSON_HEADERS.copy())


def json_answer(value: object, status: int = 200) -> web.Response:
    return json_bytes(_ENCODER.encode(value), status)


class Described(NamedTuple):
    """An error as callers may read it."""

    status: int
    code: str
    message: str
    retry_after_s: int | None


def describe_error(error: BaseException, request_id: str, client: str) -> Described:
    """Describe anything that was raised. Our own faults are logged, with a trace if they were not foreseen."""
    status = status_of(error)
    code = code_of(error)
    message = str(error)
    if status >= 500 and not isinstance(error, _SHOWN):
        foreseen = status != 500
        log.log(
            logging.WARNING if foreseen else logging.ERROR,
            "request.failed",
            extra={
                "request": request_id,
                "client": client,
                "code": code,
                "reason": message,
                "kind": type(error).__name__,
            },
            exc_info=None if foreseen else error,
        )
        message = _HIDDEN.get(status, _HIDDEN[500])
    wait_s = retry_after_s_of(error, status)
    return Described(status, code, message, None if wait_s is None else max(1, math.ceil(wait_s)))


def error_answer(error: BaseException, request_id: str, client: str) -> web.Response:
    """The answer for anything that was raised."""
    status, code, message, retry_after_s = describe_error(error, request_id, client)
    shown = problem(status, code, message, _detail(error))
    if retry_after_s is not None:
        shown.headers["Retry-After"] = str(retry_after_s)
    if status == 401:
        shown.headers["WWW-Authenticate"] = 'Bearer realm="functory"'
    return shown


def problem(status: int, code: str, message: str, detail: dict[str, object] | None = None) -> web.Response:
    return json_answer(ErrorAnswer(Problem(code, message, detail or {})), status)


def _detail(error: BaseException) -> dict[str, object]:
    if isinstance(error, FunctoryError):
        return error.detail
    if isinstance(error, HandlerSyntaxError):
        return {"field": error.field, "line": error.line, "column": error.column}
    if isinstance(error, HandlerError):
        return {"field": error.field}
    if isinstance(error, InvalidValue):
        return {"field": error.field} if error.field else {}
    if isinstance(error, LimitExceeded):
        return {"limit": error.limit_name}
    return {}

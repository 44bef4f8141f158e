"""Routes of handlers, in the old spelling (`/handler/add/{type}/add?method=`) and in the plain one."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from functory.errors import BadRequest, InvalidInput
from functory.execution.handler_document import decode_handler
from functory.loops.slices import Slices
from functory.operations import handlers as operations
from functory.operations.folders import Archive, download_folder, take_archive
from functory.operations.packages import packages_of
from functory.web.api.handler_fields import decode_handler_fields
from functory.web.api.large_job import in_memory, json_in_pieces
from functory.web.api.submission import new_payload
from functory.web.http.answers import JSON_HEADERS, json_bytes
from functory.web.http.endpoint import Call
from functory.web.http.outflow import LARGE_BYTES, PIECE_BYTES, LargeAnswer
from functory.web.http.presence import while_present
from functory.web.http.routes import Routes
from functory.wire.base import Done, to_wire
from functory.wire.handlers import (
    Handler,
    HandlerList,
    HandlerPackages,
    HandlerRow,
    InvokeBody,
    Invoked,
    MethodQuery,
    NewJobLine,
    RollbackBody,
    VersionQuery,
)
from handlers.errors import InvalidHandlerError
from handlers.folders.archive import KIND_OF_CONTENT_TYPE
from handlers.languages import LANGUAGES
from runner.outcome import Stopped
from store.base import Handler as StoredHandler
from store.base import HandlerSummary
from vocabulary.names import type_of

routes = Routes()

_HELD_BYTES: Final = 8 << 20
"""What a download keeps in memory, at most: some pieces of files."""
_ROW: Final = 40
"""What a row of a list costs, as slices count it."""
_BODY: Final = ("text/plain", "application/json", *KIND_OF_CONTENT_TYPE)


@routes.add(
    "PUT",
    "/{tenant}/handler/{type}",
    scope="handlers",
    summary="Register the handler of a type",
    raw=_BODY,
    progress=True,
)
@routes.add(
    "POST",
    "/{tenant}/handler/add/{type}/add",
    scope="handlers",
    summary="Register the handler of a type; method is its language",
    raw=_BODY,
    progress=True,
)
async def put_handler(call: Call, query: MethodQuery) -> Handler:
    """The body is the handler's text, JSON with all fields, or a folder as tar, tar.gz or zip."""
    type_name, body = call.type_name, await call.read_body()
    if query.method is not None and query.method not in LANGUAGES:
        raise InvalidHandlerError("method", f"must be one of {', '.join(LANGUAGES)}")
    lang = query.method or query.lang
    content_type = call.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type in KIND_OF_CONTENT_TYPE:
        archive = Archive(body, KIND_OF_CONTENT_TYPE[content_type])
        fields = await take_archive(call.service, call.principal, archive, lang)
    elif content_type == "application/json":
        fields = decode_handler_fields(body)
        if lang is not None and fields.setdefault("lang", lang) != lang:
            raise InvalidInput("the query and the body name different languages", detail={"field": "lang"})
    else:
        if lang is None:
            raise InvalidHandlerError(
                "lang", "is missing; add ?lang=, or send Content-Type: application/json for a body with all fields"
            )
        try:
            fields = {"lang": lang, "body": body.decode()}
        except UnicodeDecodeError as error:
            raise BadRequest(f"the handler's text is not UTF-8: {error}") from None
    put = operations.merge_handler if query.merge else operations.put_handler
    stored = await put(call.service, call.principal, type_name, fields, upgrade=query.upgrade, tell=call.tell)
    return await _show(call, stored)


@routes.add("GET", "/{tenant}/handler/get/{type}", scope="read", summary="The handler of a type", answer=Handler)
@routes.add(
    "GET",
    "/{tenant}/handler/{type}",
    scope="read",
    summary="The handler of a type, or one of its versions; as a tar if it is a folder and that is asked for",
    answer=Handler,
)
async def get_handler(call: Call, query: VersionQuery) -> Handler | LargeAnswer:
    stored = await operations.get_handler(call.service, call.tenant, call.type_name, query.version)
    if query.format == "json":
        return await _show(call, stored)
    download = await download_folder(call.service, stored)
    name = f'attachment; filename="{call.type_name.replace(":", "_")}-{stored.version}.tar"'
    headers = {**JSON_HEADERS, "Content-Type": "application/x-tar", "Content-Disposition": name}
    pieces = partial(_in_pieces, download.pieces)
    return LargeAnswer(pieces, download.size_bytes, headers=headers, held_bytes=_HELD_BYTES, may_refuse=True)


async def _in_pieces(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for part in parts:
        for at in range(0, len(part), PIECE_BYTES):
            yield part[at : at + PIECE_BYTES]


@routes.add("POST", "/{tenant}/handler/del/{type}/delete", scope="handlers", summary="Delete the handler of a type")
@routes.add("DELETE", "/{tenant}/handler/del/{type}/delete", scope="handlers", summary="Delete the handler of a type")
@routes.add("DELETE", "/{tenant}/handler/{type}", scope="handlers", summary="Delete the handler of a type")
async def delete_handler(call: Call) -> Done:
    await operations.delete_handler(call.service, call.principal, call.type_name)
    return Done()


@routes.add("GET", "/{tenant}/handler", scope="read", summary="The active handlers", answer=HandlerList)
async def list_handlers(call: Call) -> web.Response:
    """Made as the scoreboard is: there may be thousands."""
    return json_bytes(await call.web.looks.ask(call.tenant, "handlers", lambda: _handlers(call)))


async def _handlers(call: Call) -> bytes:
    rows, slices = list[HandlerRow](), Slices()
    for row in await operations.list_handlers(call.service, call.tenant):
        rows.append(_show_row(row))
        await slices.spend(_ROW)
    return msgspec.json.encode(HandlerList(rows))


@routes.add("GET", "/{tenant}/handler/{type}/versions", scope="read", summary="The versions of a handler, newest first")
async def list_versions(call: Call) -> HandlerList:
    rows = await operations.list_versions(call.service, call.tenant, call.type_name)
    return HandlerList([_show_row(row) for row in rows])


@routes.add("POST", "/{tenant}/handler/{type}/rollback", scope="handlers", summary="Activate an older version")
async def roll_back(call: Call, body: RollbackBody) -> Handler:
    return await _show(call, await operations.roll_back(call.service, call.principal, call.type_name, body.version))


@routes.add(
    "POST",
    "/{tenant}/handler/{type}/invoke",
    scope="handlers",
    summary="Run a handler once, without a job",
    answer=Invoked,
    progress=True,
)
async def invoke(call: Call, body: InvokeBody) -> Invoked | LargeAnswer:
    call.web.edge.outflow.check(call.tenant)
    payload = new_payload(body) or b""
    handler = None if body.handler is msgspec.UNSET else _given_handler(bytes(body.handler))
    invocation = operations.invoke(call.service, call.principal, call.type_name, payload, handler, tell=call.tell)
    stopped = await while_present(call.request, invocation)
    if len(stopped.result) <= LARGE_BYTES:
        return _show_run(stopped)
    shown, source = _show_run(stopped._replace(result=b"")), {"result": in_memory(stopped.result)}
    return LargeAnswer(
        lambda: json_in_pieces(shown, source), len(stopped.result), headers=dict(JSON_HEADERS), may_refuse=True
    )


def _given_handler(text: bytes) -> dict[str, Any] | None:
    if text == b"null":
        return None
    if text[:1] != b"{":
        raise InvalidInput("handler must be an object", detail={"in": "body", "field": "handler"})
    return decode_handler_fields(text)


def _show_run(stopped: Stopped) -> Invoked:
    result, result_encoding = to_wire(stopped.result)
    log, log_encoding = to_wire(stopped.noted_log)
    carried, carried_encoding = to_wire(stopped.carried or b"")
    return Invoked(
        code=stopped.code,
        exitcode=stopped.exitcode,
        result=result,
        result_encoding=result_encoding,
        log=log,
        log_encoding=log_encoding,
        duration_ms=stopped.duration_ms,
        isolation=stopped.isolation,
        new_jobs=[NewJobLine(job.type, *to_wire(job.payload), job.options) for job in stopped.new_jobs],
        carried=None if stopped.carried is None else carried,
        carried_encoding=carried_encoding,
    )


async def _show(call: Call, stored: StoredHandler) -> Handler:
    packages = await packages_of(call.service, call.tenant, stored)
    return Handler(
        type=type_of(stored.jobtype),
        version=stored.version,
        created_ms=stored.created_ms,
        author=stored.author,
        restored_from=stored.restored_from or None,
        handler=decode_handler(stored.data).to_json(),
        packages=None if packages is None else HandlerPackages(packages.state.value, packages.text),
    )


def _show_row(row: HandlerSummary) -> HandlerRow:
    return HandlerRow(
        type=type_of(row.jobtype),
        version=row.version,
        created_ms=row.created_ms,
        lang=row.lang,
        author=row.author,
        restored_from=row.restored_from or None,
        size_bytes=row.size_bytes,
        current=row.current,
    )

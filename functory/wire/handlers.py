"""Handlers on the wire."""

from typing import Annotated, Any

from msgspec import Meta

from functory.wire.base import Answer, Encoding, Request, Version


class MethodQuery(Request):
    """`method` is the language; it may also be given as `lang`."""

    method: Annotated[str, Meta(max_length=32)] | None = None
    lang: Annotated[str, Meta(max_length=32)] | None = None


class VersionQuery(Request):
    version: Version | None = None


class Handler(Answer):
    """One version, with all its fields under `handler`."""

    type: str
    version: int
    created_ms: int
    author: str
    restored_from: int | None
    handler: dict[str, Any]


class HandlerRow(Answer):
    type: str
    version: int
    created_ms: int
    lang: str
    author: str
    restored_from: int | None
    size_bytes: int
    current: bool


class HandlerList(Answer):
    handlers: list[HandlerRow]


class RollbackBody(Request):
    version: Version


class InvokeBody(Request):
    """With `handler` that one is run, without storing it; otherwise the one in force for the type."""

    payload: Any = ""
    payload_base64: Annotated[str, Meta(max_length=2_000_000)] | None = None
    handler: dict[str, Any] | None = None


class NewJobLine(Answer):
    type: str
    payload: str
    payload_encoding: Encoding


class Invoked(Answer):
    """How the run went. Jobs that it would have made are shown and not queued."""

    code: str
    exitcode: int
    result: str
    result_encoding: Encoding
    log: str
    log_encoding: Encoding
    duration_ms: float
    isolation: str
    new_jobs: list[NewJobLine]

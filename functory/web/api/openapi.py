"""`/openapi.json`, made from the routes and the types that validate them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

import functory
from functory.web.http.routes import Route
from functory.wire.admin import AddByNameQuery, NewKey, NewTenant, RateBody, RotateBody, TenantChange
from functory.wire.base import NOT_BEFORE_A_NEWLINE, ErrorAnswer
from functory.wire.consumers import ConsumerBody
from functory.wire.handlers import HandlerBody, InvokeBody, RollbackBody, VersionQuery
from functory.wire.jobs import AddQuery, CreateBody, LogText, NewJob, QueueBody, ReplayBody, RetryBody
from functory.wire.secrets import SecretBody
from functory.wire.workers import ReportBody, TakeBody
from vocabulary.names import SYSID, TENANT, TYPE

_REF: Final = "#/components/schemas/{name}"
_OLDER: Final = re.compile(r"/handler/(add|get|del)/|^/add$")
_PATH_PART: Final = re.compile(r"\{(\w+)\}")
_PATTERNS: Final = {
    "tenant": f"^{TENANT}$",
    "name": f"^{TENANT}$",
    "type": f"^{TYPE}$",
    "id": rf"^[0-9]{{8}}T[0-9]{{9}}Z-{SYSID}-[0-9a-f]{{6}}$",
    "key_id": r"^[a-z0-9]{1,32}$",
    "sysid": f"^{SYSID}$",
    "consumer": f"^{TYPE}$",
    "alert": f"^{TYPE}$",
    "webhook": f"^{TYPE}$",
    "secret": r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
    "domain": r"^[A-Za-z0-9_.:-]{1,255}$",
}
"""Patterns for parts of a path. A domain may be more than its pattern says, if it is escaped."""

_EXAMPLES: Final[dict[Any, Any]] = {
    NewJob: [{"payload": {"to": "bob"}}, {"payload": "x", "delay_s": 5}],
    CreateBody: {"jobs": [{"type": "mail", "payload": {"to": "bob"}}, {"type": "audit", "payload": "sent"}]},
    HandlerBody: {"lang": "python", "body": "return payload.upper()", "timeout_s": 5},
    InvokeBody: {"payload": "hello"},
    RollbackBody: {"version": 1},
    RetryBody: {"delay_s": 0},
    ReplayBody: {"type": "thumb", "codes": ["failed"], "dry_run": True},
    TakeBody: {"types": ["resize*"], "limit": 8, "worker": {"name": "gpu-1"}},
    ReportBody: {"reports": [{"id": "20261114T235959123Z-1-00001f", "token": 1, "outcome": "ok", "result": "done"}]},
    ConsumerBody: {"source": "verify", "max_processing": 10, "max_search_ahead": 100},
    RateBody: {"rate_per_s": 5, "burst": 10},
    SecretBody: {"value": "the value"},
    NewTenant: {"name": "shop", "weight": 2, "limits": {"max_jobs": 1_000_000}},
    TenantChange: {"suspended": False},
    NewKey: {"label": "web shop", "expires_s": 86_400},
    RotateBody: {"overlap_s": 86_400},
}

_ERRORS: Final = {
    "400": "the request cannot be read",
    "401": "no key, or not a good one",
    "403": "the key does not reach this",
    "404": "there is no such thing for this tenant",
    "408": "the body came too slowly",
    "409": "the thing is in a state that does not allow this",
    "413": "too large",
    "414": "the URL is too long",
    "422": "a value is not allowed",
    "429": "too many requests, or a quota is reached; see Retry-After",
    "431": "a header is too long, or there are too many",
    "500": "a defect of the service",
    "503": "not now; see Retry-After",
    "507": "the service has no room on its disk",
}


def build_openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """The description, as a value for JSON."""
    schemas, components = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route, name in zip(routes, _names(routes), strict=True):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, name, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Functory",
            "version": functory.__version__,
            "description": "Multi-tenant function runner on a durable job queue. docs/http-api.md is the reference.",
        },
        "servers": [{"url": "http://127.0.0.1:8484", "description": "where `functory serve` listens by default"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "fk_<id>_<secret>"}},
        },
    }


def _types(routes: Iterable[Route]) -> list[Any]:
    found: list[Any] = [ErrorAnswer, NewJob, HandlerBody]
    for route in routes:
        for kind in (route.query, route.body, route.answer):
            if kind not in {None, bytes, str, dict, LogText} and kind not in found:
                found.append(kind)
    return found


def _schemas(routes: Iterable[Route]) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    for each in (*schemas, components):
        _make_plain(each)
    return dict(zip(types, schemas, strict=True)), components


def _make_plain(schema: Any) -> None:
    """Patterns as everybody can read them."""
    for name, value in list(schema.items()) if isinstance(schema, dict) else enumerate(schema):
        if name == "pattern" and isinstance(value, str):
            schema[name] = value.removesuffix(NOT_BEFORE_A_NEWLINE)
        elif isinstance(value, dict | list):
            _make_plain(value)


def _operation(
    route: Route, name: str, schemas: dict[Any, dict[str, Any]], components: dict[str, Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": route.summary,
        "tags": [route.call.__module__.rpartition(".")[2]],
        "parameters": [*_path_parameters(route), *_query_parameters(route, schemas, components)],
        "responses": {
            str(route.status): {"description": "done", "content": _answer(route, schemas)},
            **{status: _error(text) for status, text in _ERRORS.items()},
        },
    }
    if route.path in {"/healthz", "/readyz"}:
        operation["responses"]["503"] = {"description": "failing", "content": _answer(route, schemas)}
    if route.scope == "webhook":
        operation["description"] = "No key: the sender proves itself as the webhook says."
    elif route.scope is not None:
        operation["security"] = [{"key": []}]
        also = " Also takes text/plain, one payload per line, and application/x-ndjson." if _takes_jobs(route) else ""
        key = (
            " The header Idempotency-Key is the same as idempotency_key."
            if {AddQuery, CreateBody} & {route.query, route.body}
            else " The header Idempotency-Key has the same jobs added once."
            if {AddByNameQuery, QueueBody} & {route.query, route.body}
            else ""
        )
        steps = " With Accept: text/event-stream: events with its steps, then the answer." if route.progress else ""
        operation["description"] = f"Scope of the key: {route.scope}.{also}{key}{steps}"
    body = _body(route, schemas)
    if body is not None:
        operation["requestBody"] = body
    return operation


def _names(routes: Sequence[Route]) -> list[str]:
    """A name for each operation: that of its function. Where a function serves several paths, the plainest path has the
    plain name: a tenant's before the operator's, and the older spelling last."""
    plainest: dict[str, Route] = {}
    for route in sorted(routes, key=lambda it: (_OLDER.search(it.path) is not None, not it.is_of_tenant)):
        plainest.setdefault(route.call.__name__, route)
    return [
        route.call.__name__ if plainest[route.call.__name__] is route else f"{route.call.__name__}_{_slug(route)}"
        for route in routes
    ]


def _slug(route: Route) -> str:
    return re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_")


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": _PATTERNS[name]}}
        for name in _PATH_PART.findall(route.path)
    ]


def _query_parameters(
    route: Route, schemas: dict[Any, dict[str, Any]], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = components[schemas[route.query]["$ref"].rpartition("/")[2]]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _not_null(it)}
        for name, it in schema["properties"].items()
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query option is given or left out; null cannot be sent in a query."""
    if "anyOf" not in schema:
        return schema
    choices = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _body(route: Route, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any] | None:
    if route.body is not None:
        example = {"example": _EXAMPLES[route.body]} if route.body in _EXAMPLES else {}
        return {"content": {"application/json": {"schema": schemas[route.body], **example}}}
    if not route.raw:
        return None
    job = schemas[NewJob]
    takes_jobs = _takes_jobs(route)
    jobs = {"anyOf": [job, {"type": "array", "items": job, "minItems": 1}]}
    content: dict[str, Any] = {}
    if "application/json" in route.raw:
        kind, schema = (NewJob, jobs) if takes_jobs else (HandlerBody, schemas[HandlerBody])
        content["application/json"] = {"schema": schema, "example": _EXAMPLES[kind]}
    if not takes_jobs:
        # Any other content type is taken as text. Generators know this one, and not text/plain. Where jobs are taken
        # as JSON, a client needs no lines, and generators stumble over a choice between a list and something else.
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    return {"required": True, "content": content}


def _takes_jobs(route: Route) -> bool:
    return "application/x-ndjson" in route.raw


def _answer(route: Route, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    shown = _plain_answer(route, schemas)
    return shown | {"text/event-stream": {"schema": {"type": "string"}}} if route.progress else shown


def _plain_answer(route: Route, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    if route.answer is bytes:
        return {"application/octet-stream": {}}
    if route.answer is str:
        return {"text/html" if route.path == "/docs" else "text/plain": {}}
    if route.answer is LogText:
        return {"text/plain": {}, "text/event-stream": {}}
    if route.answer is dict:
        return {"application/json": {"schema": {"type": "object"}}}
    tar: dict[str, Any] = {"application/x-tar": {}} if route.query is VersionQuery else {}
    return {"application/json": {"schema": schemas[route.answer]}, **tar}


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="ErrorAnswer")}
    return {"description": text, "content": {"application/json": {"schema": schema}}}

"""`/openapi.json`, made from the routes and the types that validate them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

import functory
from functory.web.routes import Route
from functory.wire.base import ErrorAnswer
from functory.wire.jobs import NewJob

_REF: Final = "#/components/schemas/{name}"
_PATH_PART: Final = re.compile(r"\{(\w+)\}")
_PATTERNS: Final = {
    "tenant": r"^[a-z0-9][a-z0-9_]{0,31}$",
    "name": r"^[a-z0-9][a-z0-9_]{0,31}$",
    "type": r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}$",
    "id": r"^[0-9]{8}T[0-9]{9}Z-[a-z0-9]{1,8}-[0-9a-f]{6}$",
    "key_id": r"^[a-z0-9]{1,32}$",
    "sysid": r"^[a-z0-9]{1,8}$",
    "domain": r"^[A-Za-z0-9_.:-]{1,255}$",
}
"""What a part of a path may be. A domain may be more than its pattern says, if it is escaped."""

_ERRORS: Final = {
    "400": "the request cannot be read",
    "401": "no key, or not a good one",
    "403": "the key does not reach this",
    "404": "there is no such thing for this tenant",
    "408": "the body came too slowly",
    "409": "the thing is in a state that does not allow this",
    "413": "too large",
    "422": "a value is not allowed",
    "429": "too many requests, or a quota is reached; see Retry-After",
    "500": "a defect of the service",
    "503": "not now; see Retry-After",
    "507": "the service has no room on its disk",
}


def build_openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """The description as a value that JSON can take."""
    schemas, components = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Functory",
            "version": functory.__version__,
            "description": "Multi-tenant function runner on a durable job queue. docs/http-api.md is the reference.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "fk_<id>_<secret>"}},
        },
    }


def _types(routes: Iterable[Route]) -> list[Any]:
    found: list[Any] = [ErrorAnswer, NewJob]
    for route in routes:
        for kind in (route.query, route.body, route.answer):
            if kind not in {None, bytes, str, dict} and kind not in found:
                found.append(kind)
    return found


def _schemas(routes: Iterable[Route]) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    return dict(zip(types, schemas, strict=True)), components


def _operation(route: Route, schemas: dict[Any, dict[str, Any]], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.call.__module__.rpartition('.')[2]}_{route.call.__name__}_{_slug(route)}",
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
    if route.scope is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Scope of the key: {route.scope}."
    body = _body(route, schemas)
    if body is not None:
        operation["requestBody"] = body
    return operation


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
    """A query option is given or left out: null is no text that anybody can send."""
    if "anyOf" not in schema:
        return schema
    choices = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _body(route: Route, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any] | None:
    if route.body is not None:
        return {"content": {"application/json": {"schema": schemas[route.body]}}}
    if not route.raw:
        return None
    job = schemas[NewJob]
    known: dict[str, Any] = {
        "application/json": {"anyOf": [job, {"type": "array", "items": job, "minItems": 1}]}
        if "application/x-ndjson" in route.raw
        else {"type": "object"},
    }
    return {"required": True, "content": {kind: {"schema": known.get(kind, {"type": "string"})} for kind in route.raw}}


def _answer(route: Route, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    if route.answer is bytes:
        return {"application/octet-stream": {}}
    if route.answer is str:
        return {"text/html" if route.path == "/docs" else "text/plain": {}}
    if route.answer is dict:
        return {"application/json": {"schema": {"type": "object"}}}
    return {"application/json": {"schema": schemas[route.answer]}}


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="ErrorAnswer")}
    return {"description": text, "content": {"application/json": {"schema": schema}}}

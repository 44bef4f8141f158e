"""A small asynchronous client with the verbs of the HTTP interface, for programs, the command line and the demo.

    async with Client("http://127.0.0.1:8080", key, "acme") as functory:
        added = await functory.add("thumb", [b"one", b"two"])
        job = await functory.wait(added.ids[0], wait_s=30)

Answers are the types of `functory.wire`. What the service refuses is a `ServiceError` with its status, code, message
and detail. Nothing is repeated behind the caller's back: a request that may be repeated safely is one with an
idempotency key, and the error says when.
"""

import io
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from functory.statuses import exit_code_of_status
from functory.wire import admin, handlers, jobs
from functory.wire import scoreboard as boards
from functory.wire.base import Done, ErrorAnswer

_T = TypeVar("_T")
_GRACE_S: Final = 10.0
"""On top of the time that the service was asked to wait."""


class ServiceError(Exception):
    """The service answered, and refused."""

    def __init__(self, status: int, code: str, message: str, detail: Mapping[str, Any], retry_after_s: float | None):
        super().__init__(f"{message} ({status} {code})")
        self.status = status
        self.code = code
        self.message = message
        self.detail = dict(detail)
        self.retry_after_s = retry_after_s

    @property
    def exit_code(self) -> int:
        """What a command ends with when this ends it."""
        return exit_code_of_status(self.status)


class Client:
    """One tenant's (or, with tenant "", the operator's) view of a service."""

    def __init__(self, url: str, key: str, tenant: str = "", *, timeout_s: float = 60.0) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._tenant = tenant
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(headers=self._headers, auto_decompress=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def add(
        self,
        type_name: str,
        payloads: Sequence[bytes],
        *,
        ack: Literal["journal", "store"] = "journal",
        idempotency_key: str | None = None,
        **options: str | float | bool,
    ) -> jobs.Added:
        """One job per payload, with the same options for all (`delay_s`, `dt`, `priority`, `domain`, `unique`, ...).

        Payloads that lines cannot carry (line breaks, a `#` in front, nothing at all) travel as JSON by themselves.
        """
        path = f"job/{quote(type_name, safe='')}/add"
        query: dict[str, Any] = {"ack": ack}
        if idempotency_key is not None:
            query["idempotency_key"] = idempotency_key
        if all(payload and payload[:1] != b"#" and b"\n" not in payload for payload in payloads):
            lines = b"\n".join(payloads)
            return await self._tenants("POST", path, jobs.Added, query={**query, **options}, data=lines)
        shared = {name: str(value) if name == "dt" else value for name, value in options.items()}
        found = [{"payload_base64": b64encode(payload).decode(), **shared} for payload in payloads]
        return await self._tenants("POST", path, jobs.Added, query=query, json=_encode(found))

    async def add_jobs(
        self,
        type_name: str,
        new_jobs: Sequence[Mapping[str, Any]],
        *,
        ack: Literal["journal", "store"] = "journal",
        idempotency_key: str | None = None,
    ) -> jobs.Added:
        """Jobs with options of their own: mappings with the fields of `functory.wire.jobs.NewJob`."""
        query = {"ack": ack} if idempotency_key is None else {"ack": ack, "idempotency_key": idempotency_key}
        path = f"job/{quote(type_name, safe='')}/add"
        return await self._tenants("POST", path, jobs.Added, query=query, json=msgspec.json.encode(list(new_jobs)))

    async def get_job(self, job_id: str) -> jobs.Job:
        return await self._tenants("GET", f"job/{_part(job_id)}", jobs.Job)

    async def wait(self, job_id: str, wait_s: float = 30.0) -> jobs.Job:
        """The job once it has ended, or as it is after that time (at most 60 s)."""
        return await self._tenants("GET", f"job/{_part(job_id)}", jobs.Job, query={"wait_s": wait_s}, wait_s=wait_s)

    async def get_result(self, job_id: str) -> bytes:
        """The result as its bytes."""
        return await self._request("GET", f"/{self._tenant}/job/{_part(job_id)}/result")

    async def why(self, job_id: str) -> jobs.Why:
        return await self._tenants("GET", f"job/{_part(job_id)}/why", jobs.Why)

    async def cancel(self, job_id: str) -> None:
        await self._tenants("POST", f"job/{_part(job_id)}/cancel", Done)

    async def retry(self, job_id: str, delay_s: float = 0.0) -> None:
        await self._tenants("POST", f"job/{_part(job_id)}/retry", Done, json=_encode({"delay_s": delay_s}))

    async def replay(self, **choice: Any) -> jobs.Replayed:
        """With the fields of `functory.wire.jobs.ReplayBody`."""
        return await self._tenants("POST", "replay", jobs.Replayed, json=_encode(choice))

    async def results(self, **where: Any) -> AsyncIterator[jobs.Job]:
        """All jobs that fit `functory.wire.jobs.ResultsQuery`, page after page."""
        cursor: str | None = None
        while True:
            query = where if cursor is None else {**where, "cursor": cursor}
            page = await self._tenants("GET", "results", jobs.Page, query=query)
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                return

    async def scoreboard(self, window_s: int = 3600) -> boards.Scoreboard:
        return await self._tenants("GET", "scoreboard", boards.Scoreboard, query={"window_s": window_s})

    async def failures(self, **where: Any) -> boards.FailureList:
        return await self._tenants("GET", "failures", boards.FailureList, query=where)

    async def put_handler(self, type_name: str, fields: Mapping[str, Any]) -> handlers.Handler:
        """`fields` are those of a handler: at least lang and body."""
        return await self._tenants("PUT", f"handler/{_part(type_name)}", handlers.Handler, json=_encode(fields))

    async def get_handler(self, type_name: str, version: int | None = None) -> handlers.Handler:
        query = {} if version is None else {"version": version}
        return await self._tenants("GET", f"handler/{_part(type_name)}", handlers.Handler, query=query)

    async def list_handlers(self) -> list[handlers.HandlerRow]:
        return (await self._tenants("GET", "handler", handlers.HandlerList)).handlers

    async def list_versions(self, type_name: str) -> list[handlers.HandlerRow]:
        return (await self._tenants("GET", f"handler/{_part(type_name)}/versions", handlers.HandlerList)).handlers

    async def roll_back(self, type_name: str, version: int) -> handlers.Handler:
        path = f"handler/{_part(type_name)}/rollback"
        return await self._tenants("POST", path, handlers.Handler, json=_encode({"version": version}))

    async def delete_handler(self, type_name: str) -> None:
        await self._tenants("DELETE", f"handler/{_part(type_name)}", Done)

    async def invoke(
        self, type_name: str, payload: bytes, handler: Mapping[str, Any] | None = None
    ) -> handlers.Invoked:
        """Run the handler of the type, or the one that is given, once and now."""
        body = {"payload_base64": b64encode(payload).decode()} | ({} if handler is None else {"handler": dict(handler)})
        return await self._tenants("POST", f"handler/{_part(type_name)}/invoke", handlers.Invoked, json=_encode(body))

    async def pause_type(self, type_name: str) -> None:
        await self._tenants("POST", f"type/{_part(type_name)}/pause", Done)

    async def resume_type(self, type_name: str) -> None:
        await self._tenants("POST", f"type/{_part(type_name)}/resume", Done)

    async def create_tenant(self, name: str, **more: Any) -> admin.Tenant:
        """With weight and limits, as in `functory.wire.admin.NewTenant`."""
        return await self._typed("POST", "/admin/tenants", admin.Tenant, json=_encode({"name": name, **more}))

    async def list_tenants(self) -> list[admin.Tenant]:
        return (await self._typed("GET", "/admin/tenants", admin.TenantList)).tenants

    async def update_tenant(self, name: str, **changes: Any) -> admin.Tenant:
        return await self._typed("PATCH", f"/admin/tenants/{_part(name)}", admin.Tenant, json=_encode(changes))

    async def delete_tenant(self, name: str) -> int:
        """All of it, however many requests that takes; how many records that were."""
        removed = 0
        while True:
            step = await self._typed("DELETE", f"/admin/tenants/{_part(name)}", admin.Deleted)
            removed += step.removed
            if not step.more:
                return removed

    async def create_key(self, tenant: str = "", **more: Any) -> admin.KeyWithSecret:
        """For a tenant, or without one for the operator; scopes, label, expires_s as in `NewKey`."""
        return await self._typed("POST", _keys(tenant), admin.KeyWithSecret, json=_encode(more))

    async def list_keys(self, tenant: str = "") -> list[admin.Key]:
        return (await self._typed("GET", _keys(tenant), admin.KeyList)).keys

    async def rotate_key(self, key_id: str, tenant: str = "", overlap_s: int = 86_400) -> admin.KeyWithSecret:
        path = f"{_keys(tenant)}/{_part(key_id)}/rotate"
        return await self._typed("POST", path, admin.KeyWithSecret, json=_encode({"overlap_s": overlap_s}))

    async def revoke_key(self, key_id: str, tenant: str = "") -> None:
        await self._typed("DELETE", f"{_keys(tenant)}/{_part(key_id)}", Done)

    async def list_daemons(self) -> list[admin.Daemon]:
        return (await self._typed("GET", "/admin/daemons", admin.DaemonList)).daemons

    async def pause_daemon(self, sysid: str) -> None:
        await self._typed("POST", f"/admin/daemons/{_part(sysid)}/pause", Done)

    async def resume_daemon(self, sysid: str) -> None:
        await self._typed("POST", f"/admin/daemons/{_part(sysid)}/resume", Done)

    async def audit(self, **where: Any) -> admin.AuditPage:
        return await self._typed("GET", "/admin/audit", admin.AuditPage, query=where)

    async def health(self) -> admin.HealthDetail:
        return await self._typed("GET", "/admin/health", admin.HealthDetail)

    async def _tenants(self, method: str, path: str, answer: type[_T], **more: Any) -> _T:
        return await self._typed(method, f"/{self._tenant}/{path}", answer, **more)

    async def _typed(self, method: str, path: str, answer: type[_T], **more: Any) -> _T:
        return msgspec.json.decode(await self._request(method, path, **more), type=answer)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: bytes | None = None,
        data: bytes | None = None,
        wait_s: float = 0.0,
    ) -> bytes:
        if self._session is None:
            raise RuntimeError("the client is not open: use it with `async with`")
        body = data if json is None else json
        kind = "text/plain" if json is None else "application/json"
        async with self._session.request(
            method,
            self._url + path,
            params={name: _query_text(value) for name, value in (query or {}).items()},
            data=None if body is None else io.BytesIO(body),
            headers={} if body is None else {"Content-Type": kind},
            timeout=aiohttp.ClientTimeout(total=max(self._timeout_s, wait_s + _GRACE_S)),
            allow_redirects=False,
        ) as response:
            content = await response.read()
            if response.status >= 300:
                raise _error(response.status, content, response.headers.get("Retry-After"))
            return content


def _error(status: int, content: bytes, retry_after: str | None) -> ServiceError:
    wait_s = float(retry_after) if retry_after is not None and retry_after.isdigit() else None
    try:
        problem = msgspec.json.decode(content, type=ErrorAnswer).error
    except msgspec.DecodeError:
        text = content[:200].decode("utf-8", "replace")
        return ServiceError(status, "not_functory", f"this is no answer of the service: {text!r}", {}, wait_s)
    return ServiceError(status, problem.code, problem.message, problem.detail, wait_s)


def _part(text: str) -> str:
    """One part of a path, whatever is in it."""
    return quote(text, safe="")


def _keys(tenant: str) -> str:
    return f"/admin/tenants/{_part(tenant)}/keys" if tenant else "/admin/keys"


def _encode(value: object) -> bytes:
    return msgspec.json.encode(value)


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""A small asynchronous client with the verbs of the HTTP interface.

    async with Client("http://127.0.0.1:8484", key, "acme") as acme:
        await acme.put_handler("double", "python", "return {'twice': int(payload) * 2}")
        added = await acme.add_jobs("double", ["21", "4"])
        job = await acme.get_job(added.ids[0], wait_s=10)

Answers are the same types that the server renders (`functory.wire`). What the server refuses is raised as ClientError
with its code, message and status; a connection that fails is ServerUnreachable.
"""

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec
from aiohttp import ClientError as TransportError
from aiohttp import ClientSession, ClientTimeout, InvalidURL
from aiohttp.payload import Payload

from functory.client_answers import Answer, problem
from functory.client_consumers import ConsumerCalls
from functory.client_folders import FolderCalls
from functory.errors import ClientError, InvalidInput, ServerUnreachable
from functory.wire import admin, handlers, jobs, secrets, workers
from functory.wire.scoreboard import BucketList, FailureList, Scoreboard

__all__ = ["Client", "ClientError", "ServerUnreachable"]

_T = TypeVar("_T")


class Client(ConsumerCalls, FolderCalls):
    """One connection pool for one key. `tenant` may be left out for the operator's calls."""

    def __init__(self, url: str, key: str, tenant: str = "", *, timeout_s: float = 90.0) -> None:
        self._url = url.rstrip("/")
        self._tenant = tenant
        self._session = ClientSession(
            headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=ClientTimeout(total=timeout_s)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    # Jobs

    async def add_jobs(self, job_type: str, payloads: Sequence[str | bytes], **options: object) -> jobs.Added:
        """One job for each payload, all with the same options (`delay_s`, `priority`, `idempotency_key`, ...).

        Payloads that a body of lines cannot carry travel as JSON instead.
        """
        lines = [payload.encode() if isinstance(payload, str) else payload for payload in payloads]
        path = self._path("job", job_type, "add")
        fit_lines = all(line and b"\n" not in line and not line.startswith(b"#") and line.strip() for line in lines)
        if fit_lines and "options" not in options:
            return await self._call("POST", path, jobs.Added, query=options, data=b"\n".join(lines))
        request: dict[str, object] = {
            name: options.pop(name) for name in ("ack", "ids", "idempotency_key") if name in options
        }
        shared = {name: str(value) if name == "dt" else value for name, value in options.items() if value is not None}
        rows = [{**shared, "payload_base64": b64encode(line).decode()} for line in lines]
        return await self._call("POST", path, jobs.Added, query=request, body=rows)

    async def create_jobs(
        self, new_jobs: Sequence[Mapping[str, object]], *, idempotency_key: str | None = None
    ) -> jobs.Added:
        """Jobs of several types, all or none. Each names its `type`, and its `payload` or `payload_base64`."""
        body = {"jobs": list(new_jobs), **({} if idempotency_key is None else {"idempotency_key": idempotency_key})}
        return await self._call("POST", self._path("jobs"), jobs.Added, body=body)

    async def get_job(self, job_id: str, *, wait_s: float = 0.0) -> jobs.Job:
        """With `wait_s`, returns as soon as the job has ended, or when the time is up."""
        return await self._call("GET", self._path("job", job_id), jobs.Job, query={"wait_s": wait_s} if wait_s else {})

    async def get_result(self, job_id: str) -> bytes:
        """The whole result as it is, up to 16 MB."""
        return await self._fetch("GET", self._path("job", job_id, "result"), {}, None, None)

    async def get_log(self, job_id: str) -> bytes:
        """What it has printed so far, if the daemon that answers runs it; otherwise what is kept of its last run."""
        return await self._fetch("GET", self._path("job", job_id, "log"), {}, None, None)

    async def follow_log(self, job_id: str) -> AsyncIterator[str]:
        """What a job prints, as it is printed, until it has ended."""
        path = self._url + self._path("job", job_id, "log")
        try:
            async with self._session.get(path, params={"follow": "1"}, timeout=ClientTimeout(total=None)) as response:
                if response.status >= 400:
                    raise problem(Answer(response.status, await response.read(), response.headers.get("Retry-After")))
                is_text = False
                async for line in response.content:
                    if line.startswith(b"event: "):
                        is_text = line.startswith(b"event: log")
                    elif is_text and line.startswith(b"data: "):
                        yield msgspec.json.decode(line[6:], type=str)
        except (TransportError, TimeoutError) as error:
            raise ServerUnreachable(f"{self._url}: the log ended early: {str(error) or 'no answer in time'}") from error

    async def why(self, job_id: str) -> jobs.Why:
        return await self._call("GET", self._path("job", job_id, "why"), jobs.Why)

    async def cancel_job(self, job_id: str) -> None:
        """Cancel a job that is not over. One that is running is stopped."""
        await self._fetch("POST", self._path("job", job_id, "cancel"), {}, None, None)

    async def retry_job(
        self,
        job_id: str,
        *,
        delay_s: float | None = None,
        next_run: str | None = None,
        payload: str | bytes | None = None,
        job_type: str | None = None,
    ) -> None:
        """Run a job again that has ended, or a deferred one now; or at another time, with another payload, or as a job
        of another type."""
        when = {"delay_s": delay_s, "next_run": next_run, "type": job_type}
        body = {name: value for name, value in when.items() if value is not None} | _new_payload(payload)
        await self._fetch("POST", self._path("job", job_id, "retry"), {}, body, None)

    async def update_job(self, job_id: str, payload: str | bytes) -> None:
        """Replace the payload of a job that has not started."""
        await self._fetch("PATCH", self._path("job", job_id), {}, _new_payload(payload), None)

    async def delete_job(self, job_id: str) -> int:
        """Remove all trace of a job that is not running. Returns how many jobs are gone, with its children."""
        return (await self._call("DELETE", self._path("job", job_id), jobs.DeletedJobs)).deleted

    async def results(self, **filters: object) -> jobs.Page:
        return await self._call("GET", self._path("results"), jobs.Page, query=filters)

    async def replay(self, **request: object) -> jobs.Replayed:
        return await self._call("POST", self._path("replay"), jobs.Replayed, body=request)

    async def cancel_jobs(self, job_type: str, **request: object) -> jobs.Changed:
        """Cancel jobs of a type, or of all that a GLOB pattern matches. With `dry_run`, only count them."""
        return await self._call("POST", self._path("cancel"), jobs.Changed, body={"type": job_type, **request})

    async def delete_jobs(self, job_type: str, **request: object) -> jobs.Changed:
        """Delete ended jobs of a type, or of all that a GLOB pattern matches. With `dry_run`, only count them."""
        return await self._call("POST", self._path("delete"), jobs.Changed, body={"type": job_type, **request})

    async def scoreboard(self, *, window_s: int = 3600) -> Scoreboard:
        query = {"window_s": window_s}
        return await self._call("GET", self._path("scoreboard"), Scoreboard, query=query)

    async def failures(self, **filters: object) -> FailureList:
        return await self._call("GET", self._path("failures"), FailureList, query=filters)

    async def children(self, job_id: str, **filters: object) -> jobs.Page:
        return await self._call("GET", self._path("job", job_id, "children"), jobs.Page, query=filters)

    async def timeline(self, **filters: object) -> BucketList:
        return await self._call("GET", self._path("timeline"), BucketList, query=filters)

    async def index(self, job_type: str) -> jobs.IndexAnswer:
        return await self._call("GET", self._path("index", job_type), jobs.IndexAnswer)

    async def list_rates(self) -> admin.RateList:
        return await self._call("GET", self._path("rate"), admin.RateList)

    async def set_rate(self, domain: str, rate_per_s: float, *, burst: int = 1) -> None:
        body = {"rate_per_s": rate_per_s, "burst": burst}
        await self._fetch("PUT", self._path("rate", domain), {}, body, None)

    async def delete_rate(self, domain: str) -> None:
        await self._fetch("DELETE", self._path("rate", domain), {}, None, None)

    async def list_secrets(self) -> secrets.SecretList:
        return await self._call("GET", self._path("secret"), secrets.SecretList)

    async def set_secret(self, name: str, value: str) -> secrets.SecretRow:
        return await self._call("PUT", self._path("secret", name), secrets.SecretRow, body={"value": value})

    async def delete_secret(self, name: str) -> None:
        await self._fetch("DELETE", self._path("secret", name), {}, None, None)

    async def pause_type(self, job_type: str) -> None:
        await self._fetch("POST", self._path("type", job_type, "pause"), {}, None, None)

    async def resume_type(self, job_type: str) -> None:
        await self._fetch("POST", self._path("type", job_type, "resume"), {}, None, None)

    # Workers

    async def take_jobs(self, *types: str, **request: object) -> workers.TakenJobs:
        """Jobs of types that workers serve, or of all that GLOB patterns match; `wait_s` waits for the first."""
        return await self._call("POST", self._path("work", "take"), workers.TakenJobs, body={"types": types, **request})

    async def renew_jobs(self, leases: Sequence[tuple[str, int]], *, lease_s: float | None = None) -> workers.Verdicts:
        """Keep jobs (id and token) for longer."""
        body = {"leases": _leases(leases), "lease_s": lease_s}
        return await self._call("POST", self._path("work", "renew"), workers.Verdicts, body=body)

    async def report_jobs(self, reports: Sequence[Mapping[str, object]], *, take: object = None) -> workers.Reported:
        """Say how jobs ended, or what they do; with `take`, the next jobs come with the answer."""
        body = {"reports": reports, "take": take}
        return await self._call("POST", self._path("work", "report"), workers.Reported, body=body)

    async def return_jobs(self, leases: Sequence[tuple[str, int]] = (), *, goodbye: str = "") -> workers.Verdicts:
        """Give jobs back that were not begun; with `goodbye`, all that the worker of this name holds."""
        body = {"leases": _leases(leases), "goodbye": goodbye}
        return await self._call("POST", self._path("work", "return"), workers.Verdicts, body=body)

    async def drain_worker(self, name: str, *, drained: bool = True) -> None:
        """Have a worker take no more jobs for an hour, or let it take some again."""
        await self._fetch("POST", self._path("workers", "drain"), {}, {"worker": name, "drained": drained}, None)

    async def list_workers(self) -> workers.WorkerList:
        return await self._call("GET", self._path("workers"), workers.WorkerList)

    # Handlers

    async def put_handler(self, job_type: str, lang: str, body: str, **fields: object) -> handlers.Handler:
        """With `upgrade=True` its packages are resolved anew; the same requirements keep their versions otherwise."""
        query = {"upgrade": "true"} if fields.pop("upgrade", False) else {}
        document = {"lang": lang, "body": body, **fields}
        return await self._call("PUT", self._path("handler", job_type), handlers.Handler, query=query, body=document)

    async def get_handler(self, job_type: str, *, version: int | None = None) -> handlers.Handler:
        query = {} if version is None else {"version": version}
        return await self._call("GET", self._path("handler", job_type), handlers.Handler, query=query)

    async def list_handlers(self) -> handlers.HandlerList:
        return await self._call("GET", self._path("handler"), handlers.HandlerList)

    async def list_versions(self, job_type: str) -> handlers.HandlerList:
        return await self._call("GET", self._path("handler", job_type, "versions"), handlers.HandlerList)

    async def roll_back(self, job_type: str, version: int) -> handlers.Handler:
        path = self._path("handler", job_type, "rollback")
        return await self._call("POST", path, handlers.Handler, body={"version": version})

    async def delete_handler(self, job_type: str) -> None:
        await self._fetch("DELETE", self._path("handler", job_type), {}, None, None)

    async def invoke(self, job_type: str, payload: object = "", *, handler: object = None) -> handlers.Invoked:
        body = {"payload": payload, **({} if handler is None else {"handler": handler})}
        return await self._call("POST", self._path("handler", job_type, "invoke"), handlers.Invoked, body=body)

    # The operator's

    async def create_tenant(self, name: str, **fields: object) -> admin.Tenant:
        return await self._call("POST", "/admin/tenants", admin.Tenant, body={"name": name, **fields})

    async def list_tenants(self) -> admin.TenantList:
        return await self._call("GET", "/admin/tenants", admin.TenantList)

    async def get_tenant(self, name: str) -> admin.Tenant:
        return await self._call("GET", f"/admin/tenants/{name}", admin.Tenant)

    async def pause_tenant(self, name: str) -> None:
        """Suspend it: none of its jobs start, and it may only read."""
        await self._fetch("POST", f"/admin/tenants/{name}/pause", {}, None, None)

    async def resume_tenant(self, name: str) -> None:
        await self._fetch("POST", f"/admin/tenants/{name}/resume", {}, None, None)

    async def pause_tenant_type(self, name: str, job_type: str) -> None:
        await self._fetch("POST", f"/admin/tenants/{name}/types/{quote(job_type, safe='')}/pause", {}, None, None)

    async def resume_tenant_type(self, name: str, job_type: str) -> None:
        await self._fetch("POST", f"/admin/tenants/{name}/types/{quote(job_type, safe='')}/resume", {}, None, None)

    async def change_tenant(self, name: str, **fields: object) -> admin.Tenant:
        return await self._call("PATCH", f"/admin/tenants/{name}", admin.Tenant, body=fields)

    async def delete_tenant(self, name: str) -> int:
        """Delete the tenant and all its data. Returns how many records were removed."""
        removed, more = 0, True
        while more:
            step = await self._call("DELETE", f"/admin/tenants/{name}", admin.Deleted)
            removed, more = removed + step.removed, step.more
        return removed

    async def create_key(self, tenant: str | None, **fields: object) -> admin.KeyWithSecret:
        """A key of a tenant, or of the operator. Its text is in this answer, and nowhere else."""
        return await self._call("POST", _keys_path(tenant), admin.KeyWithSecret, body=fields)

    async def list_keys(self, tenant: str | None) -> admin.KeyList:
        return await self._call("GET", _keys_path(tenant), admin.KeyList)

    async def rotate_key(self, tenant: str | None, key_id: str, *, overlap_s: int) -> admin.KeyWithSecret:
        path = f"{_keys_path(tenant)}/{key_id}/rotate"
        return await self._call("POST", path, admin.KeyWithSecret, body={"overlap_s": overlap_s})

    async def revoke_key(self, tenant: str | None, key_id: str) -> None:
        await self._fetch("DELETE", f"{_keys_path(tenant)}/{key_id}", {}, None, None)

    async def stop(self) -> None:
        """Start no more jobs on the daemon that answers."""
        await self._fetch("POST", "/stop", {}, None, None)

    async def start(self) -> None:
        await self._fetch("POST", "/start", {}, None, None)

    async def quit(self) -> None:
        """End the daemon that answers, like SIGTERM."""
        await self._fetch("POST", "/quit", {}, None, None)

    async def daemon_health(self) -> admin.HealthDetail:
        """How the daemon that answers is, in words and figures."""
        return await self._call("GET", "/admin/health", admin.HealthDetail)

    async def metrics(self) -> str:
        return (await self._fetch("GET", "/metrics", {}, None, None)).decode()

    async def pause_daemon(self, sysid: str) -> None:
        await self._fetch("POST", f"/admin/daemons/{sysid}/pause", {}, None, None)

    async def resume_daemon(self, sysid: str) -> None:
        await self._fetch("POST", f"/admin/daemons/{sysid}/resume", {}, None, None)

    async def audit(self, **filters: object) -> admin.AuditPage:
        return await self._call("GET", "/admin/audit", admin.AuditPage, query=filters)

    async def list_daemons(self) -> admin.DaemonList:
        return await self._call("GET", "/admin/daemons", admin.DaemonList)

    async def health(self, *, is_live_enough: bool = False) -> admin.HealthAnswer:
        """Whether the daemon takes jobs; or, with `is_live_enough`, whether it is alive. Needs no key."""
        answer = await self._send("GET", "/healthz" if is_live_enough else "/readyz", {}, None, None)
        try:
            return msgspec.json.decode(answer.body, type=admin.HealthAnswer)
        except msgspec.MsgspecError:
            raise problem(answer) from None

    async def openapi(self) -> dict[str, Any]:
        return await self._call("GET", "/openapi.json", dict[str, Any])

    # One request

    def _path(self, *parts: str) -> str:
        return "/" + "/".join(quote(part, safe="") for part in (self._tenant, *parts))

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[_T],
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | Payload | None = None,
    ) -> _T:
        return msgspec.json.decode(await self._fetch(method, path, query or {}, body, data), type=answer)

    async def _fetch(
        self, method: str, path: str, query: Mapping[str, object], body: object, data: bytes | Payload | None
    ) -> bytes:
        answer = await self._send(method, path, query, body, data)
        if answer.status >= 400:
            raise problem(answer)
        return answer.body

    async def _send(
        self, method: str, path: str, query: Mapping[str, object], body: object, data: bytes | Payload | None
    ) -> Answer:
        content = data if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        parameters = {name: str(value) for name, value in query.items() if value is not None}
        try:
            async with self._session.request(
                method, self._url + path, params=parameters, data=content, headers=headers
            ) as response:
                return Answer(response.status, await response.read(), response.headers.get("Retry-After"))
        except InvalidURL as error:
            raise InvalidInput(f"{self._url!r} is not the URL of a server, such as http://127.0.0.1:8484") from error
        except (TransportError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise ServerUnreachable(f"{self._url} cannot be reached, does a daemon listen there? {reason}") from error


def _new_payload(payload: str | bytes | None) -> dict[str, str]:
    if payload is None:
        return {}
    raw = payload.encode() if isinstance(payload, str) else payload
    return {"payload_base64": b64encode(raw).decode()}


def _leases(leases: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
    return [{"id": job_id, "token": token} for job_id, token in leases]


def _keys_path(tenant: str | None) -> str:
    return "/admin/keys" if tenant is None else f"/admin/tenants/{tenant}/keys"

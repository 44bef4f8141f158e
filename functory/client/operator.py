"""The operator's calls: tenants, keys, daemons."""

from typing import Any

import msgspec

from functory.client.transport import Transport
from functory.wire import admin
from functory.wire.refusals import problem
from functory.wire.requests import path_of


class OperatorCalls(Transport):
    async def create_tenant(self, name: str, **fields: object) -> admin.Tenant:
        return await self._call("POST", "/admin/tenants", admin.Tenant, body={"name": name, **fields})

    async def list_tenants(self) -> admin.TenantList:
        return await self._call("GET", "/admin/tenants", admin.TenantList)

    async def get_tenant(self, name: str) -> admin.TenantWithUsage:
        return await self._call("GET", _tenant_path(name), admin.TenantWithUsage)

    async def pause_tenant(self, name: str) -> None:
        """Suspend it: none of its jobs start, and it may only read."""
        await self._fetch("POST", _tenant_path(name, "pause"), {}, None, None)

    async def resume_tenant(self, name: str) -> None:
        await self._fetch("POST", _tenant_path(name, "resume"), {}, None, None)

    async def pause_tenant_type(self, name: str, job_type: str) -> None:
        await self._fetch("POST", _tenant_path(name, "types", job_type, "pause"), {}, None, None)

    async def resume_tenant_type(self, name: str, job_type: str) -> None:
        await self._fetch("POST", _tenant_path(name, "types", job_type, "resume"), {}, None, None)

    async def change_tenant(self, name: str, **fields: object) -> admin.Tenant:
        return await self._call("PATCH", _tenant_path(name), admin.Tenant, body=fields)

    async def delete_tenant(self, name: str) -> int:
        """Delete the tenant and all its data. Returns how many records were removed."""
        step = await self._call("DELETE", _tenant_path(name), admin.Deleted)
        removed = step.removed
        while step.more:  # not the next tenant of the name, if another daemon has done the rest
            step = await self._call("DELETE", _tenant_path(name), admin.Deleted, query={"only_deleting": True})
            removed += step.removed
        return removed

    async def create_key(self, tenant: str | None, **fields: object) -> admin.KeyWithSecret:
        """A key of a tenant, or of the operator. Its text is in this answer, and nowhere else."""
        return await self._call("POST", _keys_path(tenant), admin.KeyWithSecret, body=fields)

    async def list_keys(self, tenant: str | None) -> admin.KeyList:
        return await self._call("GET", _keys_path(tenant), admin.KeyList)

    async def rotate_key(
        self, tenant: str | None, key_id: str, *, overlap_s: int, expires_s: int | None = None
    ) -> admin.KeyWithSecret:
        """A new key like it, which lives for `expires_s`, or for as long as the old one was to live."""
        body = {"overlap_s": overlap_s} | ({} if expires_s is None else {"expires_s": expires_s})
        return await self._call("POST", _keys_path(tenant, key_id, "rotate"), admin.KeyWithSecret, body=body)

    async def revoke_key(self, tenant: str | None, key_id: str) -> None:
        await self._fetch("DELETE", _keys_path(tenant, key_id), {}, None, None)

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

    async def metrics(self, tenant: str | None = None, **filters: object) -> str:
        """Figures for Prometheus: of the daemon that answers, or of a tenant, with a key of it."""
        path = "/metrics" if tenant is None else path_of(tenant, "metrics")
        return (await self._fetch("GET", path, filters, None, None)).decode()

    async def pause_daemon(self, sysid: str) -> None:
        await self._fetch("POST", path_of("admin", "daemons", sysid, "pause"), {}, None, None)

    async def resume_daemon(self, sysid: str) -> None:
        await self._fetch("POST", path_of("admin", "daemons", sysid, "resume"), {}, None, None)

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
            raise problem(*answer) from None

    async def openapi(self) -> dict[str, Any]:
        return await self._call("GET", "/openapi.json", dict[str, Any])


def _tenant_path(name: str, *more: str) -> str:
    return path_of("admin", "tenants", name, *more)


def _keys_path(tenant: str | None, *more: str) -> str:
    return path_of("admin", "keys", *more) if tenant is None else _tenant_path(tenant, "keys", *more)

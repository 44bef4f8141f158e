"""The verbs on secrets, checked."""

from store.checked.core import CheckedCore
from store.checks import check_secret, check_secret_name, check_time
from store.names import check_tenant
from store.protocol.secrets import SecretShelf
from store.values.records import Secret


class CheckedSecrets(CheckedCore, SecretShelf):
    async def put_secret(self, secret: Secret) -> bool:
        check_secret(secret)
        return await self._back.put_secret(secret)

    async def reseal_secret(self, secret: Secret) -> bool:
        check_secret(secret)
        return await self._back.reseal_secret(secret)

    async def list_secrets(self, tenant: str) -> list[Secret]:
        check_tenant(tenant)
        return await self._back.list_secrets(tenant)

    async def list_secret_tenants(self) -> list[str]:
        return await self._back.list_secret_tenants()

    async def list_secret_keys(self) -> list[str]:
        return await self._back.list_secret_keys()

    async def delete_secret(self, tenant: str, name: str, *, now_ms: int) -> bool:
        check_tenant(tenant)
        check_secret_name(name)
        check_time("now_ms", now_ms)
        return await self._back.delete_secret(tenant, name, now_ms=now_ms)

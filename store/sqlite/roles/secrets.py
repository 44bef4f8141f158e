"""The verbs on secrets on SQLite."""

from store.protocol.secrets import SecretShelf
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import secrets
from store.values.records import Secret


class SqliteSecrets(SqliteCore, SecretShelf):
    async def put_secret(self, secret: Secret) -> bool:
        return await self._write(lambda tx: secrets.put_secret(tx, secret))

    async def reseal_secret(self, secret: Secret) -> bool:
        return await self._write(lambda tx: secrets.reseal_secret(tx, secret))

    async def list_secrets(self, tenant: str) -> list[Secret]:
        return await self._read(lambda conn: secrets.list_secrets(conn, tenant))

    async def list_secret_tenants(self) -> list[str]:
        return await self._read(secrets.list_secret_tenants)

    async def list_secret_keys(self) -> list[str]:
        return await self._read(secrets.list_secret_keys)

    async def delete_secret(self, tenant: str, name: str, *, now_ms: int) -> bool:
        return await self._write(lambda tx: secrets.delete_secret(tx, tenant, name, now_ms))

"""Verbs on secrets: values of a tenant that only the application can read. The store has them sealed."""

import abc

from store.values.records import Secret


class SecretShelf(abc.ABC):
    """Sealed values by tenant and name, the newest in force. One that was deleted stays as a name with its last version
    and without data, so that no version is ever given twice."""

    @abc.abstractmethod
    async def put_secret(self, secret: Secret) -> bool:
        """Put a version in force if the one before it is the last that was given (none, for version 1). False if it is
        not: somebody was quicker, and nothing is changed. Atomic. Raises InvalidValue."""

    @abc.abstractmethod
    async def reseal_secret(self, secret: Secret) -> bool:
        """Write the data of the version in force anew, sealed under another key. False if another version is in force,
        or none, or one of the same number that somebody else has set: the tenant may have got the name of another.
        Atomic, idempotent. Raises InvalidValue."""

    @abc.abstractmethod
    async def list_secrets(self, tenant: str) -> list[Secret]:
        """In order of name, with those that were deleted: their data is empty."""

    @abc.abstractmethod
    async def list_secret_tenants(self) -> list[str]:
        """The tenants that have secrets or have had some, in order."""

    @abc.abstractmethod
    async def list_secret_keys(self) -> list[str]:
        """The ids of the keys with which the secrets that are set are sealed, in order."""

    @abc.abstractmethod
    async def delete_secret(self, tenant: str, name: str, *, now_ms: int) -> bool:
        """Remove the data; the version grows by one. False if there was none. Atomic."""

"""Secrets of a tenant: set, list by name, delete. No operation returns a value, and the audit log has names only."""

from functory.errors import InvalidInput
from functory.operations.audit import audit
from functory.operations.principal import Principal
from functory.operations.service import Service
from handlers.errors import InvalidHandlerError
from handlers.model import Handler
from handlers.validation import secret_name_trouble
from store.base import Secret


async def list_secrets(service: Service, tenant: str) -> list[Secret]:
    """Those that are set, in order of name. Their data is sealed, and is nobody's but the vault's."""
    return await service.vault.list_set(tenant)


async def set_secret(service: Service, who: Principal, name: str, value: str) -> Secret:
    """Set a secret, or rotate it: the next batch of each handler that names it has the new value.

    Raises InvalidInput, QuotaExceeded, Conflict, SecretsLockedError.
    """
    _check_name(name)
    secret = await service.vault.put(Secret(who.tenant, name, 1, service.now_ms(), who.key_id, "", b""), value)
    service.known_webhooks.forget(who.tenant)
    await audit(service, who.key_id, "secret.set", who.tenant, secret=name, version=secret.version)
    return secret


async def delete_secret(service: Service, who: Principal, name: str) -> None:
    """Jobs of handlers that name it end in error from then on, and are tried again. Raises Missing."""
    _check_name(name)
    await service.vault.delete(who.tenant, name, service.now_ms())
    service.known_webhooks.forget(who.tenant)
    await audit(service, who.key_id, "secret.delete", who.tenant, secret=name)


async def require_secrets(service: Service, tenant: str, handler: Handler) -> None:
    """Raises InvalidHandlerError if the handler names one that is not set."""
    if absent := await service.vault.missing(tenant, handler.secrets):
        names = ", ".join(absent)
        raise InvalidHandlerError("secrets", f"{names} not set yet; first `functory secret set {absent[0]}`")


def _check_name(name: str) -> None:
    if trouble := secret_name_trouble(name):
        raise InvalidInput(f"{name!r:.80} {trouble}", detail={"field": "name"})

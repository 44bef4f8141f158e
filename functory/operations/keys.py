"""Keys: `fk_<id>_<secret>`. Made here, shown once, kept only as a hash.

The hash is one plain SHA-256. The secret has 192 random bits, which cannot be guessed at any speed. A slow hash is for
secrets that people choose; here it would only let strangers burn our processor with every request.
"""

import hashlib
import math
import secrets
import string
from collections.abc import Sequence
from typing import Final

from functory.errors import InvalidInput
from functory.operations.audit import audit
from functory.operations.principal import OPERATOR
from functory.operations.service import Service
from functory.wire.scopes import OPERATOR_SCOPES, TENANT_SCOPES
from store.base import ApiKey
from store.errors import Conflict, NotFound

_ID_ALPHABET: Final = string.ascii_lowercase + string.digits
_ID_CHARS: Final = 12
_SECRET_BYTES: Final = 24


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


async def create_key(
    service: Service,
    actor: str,
    tenant: str,
    *,
    scopes: Sequence[str] | None = None,
    label: str = "",
    expires_s: int | None = None,
    key_id: str | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its text, which cannot be shown again. Without scopes it gets all that its kind can have.

    key_id is one of `new_key_id`, from whoever may ask twice and wants one key. Raises Conflict the second time.
    """
    key, text = new_key(tenant, service.now_ms(), scopes=scopes, label=label, expires_s=expires_s)
    if key_id is not None:
        if len(key_id) != _ID_CHARS or not set(key_id) <= set(_ID_ALPHABET):
            raise InvalidInput(f"a key id has {_ID_CHARS} small letters and digits", detail={"field": "key_id"})
        key, text = key._replace(key_id=key_id), text.replace(key.key_id, key_id, 1)
    await add_key(service, actor, key)
    return key, text


def new_key_id() -> str:
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_CHARS))


def new_key(
    tenant: str, now_ms: int, *, scopes: Sequence[str] | None = None, label: str = "", expires_s: int | None = None
) -> tuple[ApiKey, str]:
    """A key that the store does not know yet, and its text."""
    allowed = OPERATOR_SCOPES if tenant == OPERATOR else TENANT_SCOPES
    chosen = allowed if scopes is None else tuple(dict.fromkeys(scopes))
    for scope in chosen:
        if scope not in allowed:
            raise InvalidInput(
                f"scope {scope!r} is not one of {', '.join(allowed)}, which this kind of key can have",
                detail={"field": "scopes"},
            )
    key_id = new_key_id()
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    expires_ms = None if expires_s is None else now_ms + expires_s * 1000
    return ApiKey(key_id, tenant, hash_secret(secret), chosen, now_ms, expires_ms, label), f"fk_{key_id}_{secret}"


async def add_key(service: Service, actor: str, key: ApiKey) -> None:
    await service.store.add_key(key)
    about = {"key": key.key_id, "scopes": list(key.scopes), "expires_ms": key.expires_ms}
    await audit(service, actor, "key.create", key.tenant, **about)


async def is_administered(service: Service) -> bool:
    """Whether a key can administer the service."""
    now_ms = service.now_ms()
    return any(
        "operator" in key.scopes and (key.expires_ms is None or key.expires_ms > now_ms)
        for key in await service.store.list_keys(OPERATOR)
    )


async def list_keys(service: Service, tenant: str) -> list[ApiKey]:
    return await service.store.list_keys(tenant)


async def rotate_key(
    service: Service, actor: str, tenant: str, key_id: str, overlap_s: int, expires_s: int | None = None
) -> tuple[ApiKey, str]:
    """A new key with the scopes and label of the old one, which lives for as long as that was to live, from now, or for
    `expires_s`. The old one ends after the overlap, or at its own expiry if that is earlier. Raises NotFound, and
    Conflict if the old one has expired, or was created while the clock was ahead and tells no length."""
    old, now_ms = await _own_key(service, tenant, key_id), service.now_ms()
    if old.expires_ms is not None and old.expires_ms <= now_ms:
        raise Conflict(f"key {key_id} has expired: create a new one")
    if expires_s is None and old.expires_ms is not None:
        expires_s = math.ceil((old.expires_ms - old.created_ms) / 1000)
        if expires_s <= 0:
            raise Conflict(f"key {key_id} expires before it was created: say with expires_s how long the new one lives")
    key, text = await create_key(service, actor, tenant, scopes=old.scopes, label=old.label, expires_s=expires_s)
    ends_ms = now_ms + overlap_s * 1000
    if old.expires_ms is None or old.expires_ms > ends_ms:
        await service.store.set_key_expiry(tenant, key_id, ends_ms)
    await audit(service, actor, "key.rotate", tenant, key=key_id, successor=key.key_id, ends_ms=ends_ms)
    service.verified_keys.forget()
    service.control.keys_changed()
    return key, text


async def revoke_key(service: Service, actor: str, tenant: str, key_id: str) -> None:
    """Revoke a key: at once here, in a moment on other daemons, at the latest when their key caches end."""
    if not await service.store.delete_key(tenant, key_id):
        raise NotFound(f"there is no key {key_id}")
    await audit(service, actor, "key.revoke", tenant, key=key_id)
    service.verified_keys.forget()
    service.control.keys_changed()


async def _own_key(service: Service, tenant: str, key_id: str) -> ApiKey:
    key = await service.store.get_key(key_id)
    if key is None or key.tenant != tenant:
        raise NotFound(f"there is no key {key_id}")
    return key

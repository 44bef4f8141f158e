"""Authentication: from the text of a key to the Principal, with a small cache of keys that were verified.

A verified key is trusted for `life_s` without asking the store, so a revoked key works at most that long on other
daemons (on this one `forget` ends it at once). While the store cannot be reached, a key that was good before stays good
for `grace_s`: intake goes on into the journal. The cache is found by a hash of the whole key, so neither the memory nor
the time of a look-up gives a secret away.
"""

import hashlib
import hmac
import re
from typing import Final, NamedTuple

import msgspec

from functory.errors import Unauthorized
from functory.operations.keys import hash_secret
from functory.operations.principal import OPERATOR, Principal
from functory.operations.service import Service
from functory.wire.admin import TenantLimits
from store.base import ApiKey, Tenant
from store.errors import StoreUnavailable

_KEY: Final = re.compile(r"fk_([a-z0-9]{1,32})_([A-Za-z0-9_-]{20,128})", re.ASCII)
_NOT_GOOD: Final = "the key is not known, has expired or was revoked: check the Authorization header"


class _Verified(NamedTuple):
    principal: Principal
    checked_ms: int
    expires_ms: int | None


class KeyRing:
    def __init__(
        self, service: Service, *, life_s: float = 5.0, grace_s: float = 3600.0, max_keys: int = 10_000
    ) -> None:
        self._service = service
        self._life_ms = life_s * 1000
        self._grace_ms = grace_s * 1000
        self._max_keys = max_keys
        self._verified: dict[bytes, _Verified] = {}
        self._rechecked: dict[str, _Verified] = {}

    def recall(self, text: str) -> Principal | None:
        """The principal of a key that was verified a moment ago; None when that must be done again."""
        known = self._verified.get(_digest(text))
        if known is None:
            return None
        now_ms = self._service.now_ms()
        if abs(now_ms - known.checked_ms) >= self._life_ms or (known.expires_ms or now_ms + 1) <= now_ms:
            return None
        return known.principal

    async def authenticate(self, text: str) -> Principal:
        """Raises Unauthorized, with one message for all that can be wrong; StoreUnavailable if it cannot be told."""
        digest = _digest(text)
        now_ms = self._service.now_ms()
        known = self._verified.get(digest)
        try:
            principal, expires_ms = await self._verify(text, now_ms)
        except StoreUnavailable:
            if known is None or abs(now_ms - known.checked_ms) > self._grace_ms:
                raise
            return _if_valid(known, now_ms)
        except Unauthorized:
            self._verified.pop(digest, None)
            raise
        self._verified.pop(digest, None)
        if len(self._verified) >= self._max_keys:
            del self._verified[next(iter(self._verified))]
        self._verified[digest] = _Verified(principal, now_ms, expires_ms)
        return principal

    async def recheck(self, key_id: str) -> Principal:
        """Who a key is that was verified when a session began: it may have been revoked since.

        By its public id alone, so never for what a request says of itself. Raises Unauthorized, StoreUnavailable.
        """
        now_ms = self._service.now_ms()
        known = self._rechecked.get(key_id)
        if known is not None and abs(now_ms - known.checked_ms) < self._life_ms:
            return _if_valid(known, now_ms)
        self._rechecked.pop(key_id, None)
        key = await self._service.store.get_key(key_id)
        if key is None or (key.expires_ms is not None and key.expires_ms <= now_ms):
            raise Unauthorized(_NOT_GOOD)
        principal = await self._principal(key)
        if len(self._rechecked) >= self._max_keys:
            del self._rechecked[next(iter(self._rechecked))]
        self._rechecked[key_id] = _Verified(principal, now_ms, key.expires_ms)
        return principal

    def forget(self) -> None:
        """Something about keys or tenants was changed through this daemon: ask the store again."""
        self._verified.clear()
        self._rechecked.clear()

    async def _verify(self, text: str, now_ms: int) -> tuple[Principal, int | None]:
        match = _KEY.fullmatch(text)
        if match is None:
            raise Unauthorized(_NOT_GOOD)
        key = await self._service.store.get_key(match[1])
        # A key that is not there is compared, too: both answers take the same time.
        known_hash = key.hash if key is not None else bytes(32)
        is_right = hmac.compare_digest(hash_secret(match[2]), known_hash)
        if key is None or not is_right or (key.expires_ms is not None and key.expires_ms <= now_ms):
            raise Unauthorized(_NOT_GOOD)
        return await self._principal(key), key.expires_ms

    async def _principal(self, key: ApiKey) -> Principal:
        scopes = frozenset(key.scopes)
        if key.tenant == OPERATOR:
            return Principal(key.key_id, OPERATOR, scopes, TenantLimits())
        tenant = await self._service.store.get_tenant(key.tenant)
        if tenant is None or tenant.deleting:
            raise Unauthorized(_NOT_GOOD)
        limits = limits_of(tenant, self._service.settings.default_limits)
        return Principal(key.key_id, key.tenant, scopes, limits, tenant.suspended)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def limits_of(tenant: Tenant, default: TenantLimits | None = None) -> TenantLimits:
    """The tenant's own limits, and the default's where it has none."""
    own = msgspec.json.decode(tenant.limits, type=TenantLimits) if tenant.limits else TenantLimits()
    if default is None:
        return own
    merged = {
        name: getattr(default, name) if getattr(own, name) is None else getattr(own, name)
        for name in TenantLimits.__struct_fields__
    }
    return TenantLimits(**merged)


def _if_valid(known: _Verified, now_ms: int) -> Principal:
    if known.expires_ms is not None and known.expires_ms <= now_ms:
        raise Unauthorized(_NOT_GOOD)
    return known.principal

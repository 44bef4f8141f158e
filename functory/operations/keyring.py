"""Authentication: from the text of a key to the Principal, with a small cache of verified keys.

A verified key is trusted for LIFE_S without asking the store. So a revoked key works at most that long on other
daemons, also for who waits there; on this one, the operation that revokes it clears the cache. While the store cannot
be reached, or does not answer, a key that was good before stays good for GRACE_S, also over a restart
(`daemon/kept_keys.py`): intake goes on into the journal. However many come with one key, or have waited with it, the
store is asked for it once.
"""

import asyncio
import hashlib
import hmac
import re
from contextlib import suppress
from typing import Final

from functory.errors import NotReadyYet, Unauthorized
from functory.loops.one_look import PATIENCE_S, OneLook
from functory.operations.keys import hash_secret
from functory.operations.principal import OPERATOR, Principal
from functory.operations.service import Service
from functory.operations.verified_keys import GRACE_S, LIFE_S, VerifiedKey
from functory.tenant_limits import TenantLimits, limits_from
from store.base import ApiKey
from store.errors import StoreUnavailable

_KEY: Final = re.compile(r"fk_([a-z0-9]{1,32})_([A-Za-z0-9_-]{20,128})", re.ASCII)
_UNCHECKED: Final = (
    "the store is away, and this daemon has not seen the key lately: it can be checked when the store is back. Nothing"
    " was accepted; try again later"
)
_NOT_GOOD: Final = "the key is not known, has expired or was revoked: check the Authorization header"


class KeyRing:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._cache = service.verified_keys
        self._looks: OneLook[tuple[str, int], VerifiedKey] = OneLook()
        """By public id, and by how often keys had changed: nobody gets the answer of a look of before a change."""
        self._verifications: OneLook[tuple[bytes, int], VerifiedKey] = OneLook()
        """By a hash of the whole key, and so on."""

    @property
    def changes(self) -> int:
        """Another number after each change of keys or tenants that this daemon hears of."""
        return self._cache.changes

    def recall(self, text: str) -> Principal | None:
        """The principal of a key that was verified a moment ago; None when that must be done again."""
        known = self._cache.by_digest.get(_digest(text))
        if known is None:
            return None
        now_ms = self._service.now_ms()
        if abs(now_ms - known.checked_ms) >= LIFE_S * 1000 or known.principal.has_expired(now_ms):
            return None
        return known.principal

    async def admit(self, text: str) -> Principal:
        """The principal of a key, verified now or a moment ago. Raises what `authenticate` raises."""
        return self.recall(text) or await self.authenticate(text)

    async def confirm(self, who: Principal) -> None:
        """Whether a key is still good that was verified a while ago: for whoever has waited since. Until it expires it
        is, as long as the store cannot be reached. Raises Unauthorized."""
        now_ms = self._service.now_ms()
        if who.has_expired(now_ms):
            raise Unauthorized(_NOT_GOOD)
        if (known := self._recent(who.key_id, now_ms)) is not None:
            _if_valid(known, now_ms)
            return
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self.recheck(who.key_id)

    async def authenticate(self, text: str) -> Principal:
        """Verify a key. Raises Unauthorized, with the same message whatever is wrong; NotReadyYet if it cannot be
        told without the store."""
        match = _KEY.fullmatch(text)
        if match is None:
            raise Unauthorized(_NOT_GOOD)
        digest, now_ms = _digest(text), self._service.now_ms()
        known, changes = self._cache.by_digest.get(digest), self._cache.changes
        if known is not None and abs(now_ms - known.checked_ms) > GRACE_S * 1000:
            known = None
        try:
            verified = await self._verifications.ask(
                (digest, changes), lambda: self._verify(digest, match[1], match[2], changes), known=known
            )
        except StoreUnavailable:
            if known is None:
                raise NotReadyYet(_UNCHECKED) from None
            verified = known
        return _if_valid(verified, self._service.now_ms())

    async def recheck(self, key_id: str) -> Principal:
        """The principal of a key that was verified when a session or a wait began: it may have been revoked since.

        Looks the key up by its public id alone, so never use it for what a request says about itself. Raises
        Unauthorized, StoreUnavailable.
        """
        now_ms = self._service.now_ms()
        known = self._recent(key_id, now_ms)
        if known is None:
            changes = self._cache.changes
            known = await self._looks.ask((key_id, changes), lambda: self._look(key_id, now_ms, changes))
        return _if_valid(known, now_ms)

    def _recent(self, key_id: str, now_ms: int) -> VerifiedKey | None:
        """What is known of a key, if that was looked up a moment ago."""
        known = self._cache.by_id.get(key_id)
        return None if known is None or abs(now_ms - known.checked_ms) >= LIFE_S * 1000 else known

    async def _look(self, key_id: str, now_ms: int, changes: int) -> VerifiedKey:
        """The key as the store has it, which may have expired. Raises Unauthorized, StoreUnavailable."""
        self._cache.by_id.pop(key_id, None)
        key = await self._service.store.get_key(key_id)
        if key is None:
            raise Unauthorized(_NOT_GOOD)
        known = VerifiedKey(await self._principal(key), now_ms)
        self._cache.keep(self._cache.by_id, key_id, known, changes)
        return known

    async def _verify(self, digest: bytes, key_id: str, secret: str, changes: int) -> VerifiedKey:
        """The key as the store has it, also for the cache. Raises Unauthorized, StoreUnavailable."""
        try:
            verified = await self._read(key_id, secret)
        except Unauthorized:
            self._cache.by_digest.pop(digest, None)
            raise
        self._cache.keep(self._cache.by_digest, digest, verified, changes)
        self._cache.keep(self._cache.by_id, key_id, verified, changes)
        return verified

    async def _read(self, key_id: str, secret: str) -> VerifiedKey:
        now_ms = self._service.now_ms()
        key = await self._service.store.get_key(key_id)
        # Compare also when there is no such key: both answers take the same time.
        known_hash = key.hash if key is not None else bytes(32)
        is_right = hmac.compare_digest(hash_secret(secret), known_hash)
        if key is None or not is_right or (key.expires_ms is not None and key.expires_ms <= now_ms):
            raise Unauthorized(_NOT_GOOD)
        return VerifiedKey(await self._principal(key), now_ms)

    async def _principal(self, key: ApiKey) -> Principal:
        scopes = frozenset(key.scopes)
        if key.tenant == OPERATOR:
            return Principal(key.key_id, OPERATOR, scopes, TenantLimits(), expires_ms=key.expires_ms)
        found = await principal_of(self._service, key.tenant, key.key_id, scopes)
        if found is None:
            raise Unauthorized(_NOT_GOOD)
        return found._replace(expires_ms=key.expires_ms)


async def principal_of(service: Service, name: str, key_id: str, scopes: frozenset[str]) -> Principal | None:
    """Who acts for a tenant, with the limits that it has now; None if there is no such tenant."""
    tenant = await service.store.get_tenant(name)
    if tenant is None or tenant.deleting:
        return None
    await service.control.meet_tenant(name, tenant.created_ms)  # before it can bring a job
    return Principal(key_id, name, scopes, limits_from(tenant.limits), tenant.suspended, tenant.created_ms)


async def require_same_tenant(service: Service, who: Principal) -> None:
    """Before what is done long after `who` was admitted. Raises Unauthorized if the tenant is gone, also if there is
    another of its name."""
    if who.tenant_since_ms:  # else it was not read, and nobody can tell
        tenant = await service.store.get_tenant(who.tenant)
        if tenant is None or tenant.deleting or tenant.created_ms != who.tenant_since_ms:
            raise Unauthorized(_NOT_GOOD)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _if_valid(known: VerifiedKey, now_ms: int) -> Principal:
    if known.principal.has_expired(now_ms):
        raise Unauthorized(_NOT_GOOD)
    return known.principal

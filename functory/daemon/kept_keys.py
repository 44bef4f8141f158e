"""Keys that this daemon verified lately, in a file for its next life: it may have to start without the store.

A key that the store said was good is good for the keyring's grace period while the store is away (keyring.py). The
file only carries that over a restart: whose key it is, what it may do, and when the store said so. Of the key itself
there is a SHA-256, as in the store. Only keys of tenants are kept that may submit jobs, because little else can be done
without the store. When a key or a tenant is changed, the file is removed.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec

from functory.operations.principal import OPERATOR, Principal
from functory.operations.verified_keys import VerifiedKey, VerifiedKeys
from functory.tenant_limits import TenantLimits
from journal.durable import replace_durably
from vocabulary.names import is_tenant

log = logging.getLogger("functory.keys")

_EVERY_S: Final = 10.0
_MOST_KEYS: Final = 1000
_OLD_MS: Final = 60_000
"""The file is not written again only because the store said the same once more, unless that is so long ago."""


class _Kept(msgspec.Struct, frozen=True):
    digest: bytes
    key_id: str
    tenant: str
    scopes: list[str]
    limits: TenantLimits
    suspended: bool
    checked_ms: int
    expires_ms: int | None


class _File(msgspec.Struct, frozen=True):
    mark: str
    keys: list[_Kept]


class KeptKeys:
    def __init__(self, path: Path, mark: str, keys: VerifiedKeys) -> None:
        """mark: of the store, so that keys of another are not believed."""
        self._path = path
        self._mark = mark
        self._keys = keys
        self._written: dict[bytes, VerifiedKey] = {}
        self._removal: asyncio.Task[None] | None = None
        keys.when_forgotten(self._forget)

    async def recall(self) -> None:
        """Put what the last life kept among the verified keys, with the time at which the store said so."""
        for kept in await asyncio.to_thread(self._read):
            scopes = frozenset(kept.scopes)
            who = Principal(kept.key_id, kept.tenant, scopes, kept.limits, kept.suspended, expires_ms=kept.expires_ms)
            key = VerifiedKey(who, kept.checked_ms)
            if is_tenant(kept.tenant) and kept.digest not in self._keys.by_digest:
                self._keys.keep(self._keys.by_digest, kept.digest, key)

    async def run(self) -> None:
        """Keep the file up to date until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.write()

    async def write(self) -> None:
        """If there is something new."""
        recent = [item for item in self._keys.by_digest.items() if _is_useful(item[1].principal)][-_MOST_KEYS:]
        if self._removal is not None:
            await self._removal
        if any(map(self._is_new, recent)):
            written = dict(recent)
            try:
                await asyncio.to_thread(replace_durably, self._path, self._encode(written))
            except OSError as error:
                log.warning("keys.not_kept", extra={"reason": str(error)})
                return
            self._written = written
            if any(digest not in self._keys.by_digest for digest in written):
                self._forget()  # they were forgotten meanwhile

    def _is_new(self, item: tuple[bytes, VerifiedKey]) -> bool:
        digest, key = item
        known = self._written.get(digest)
        return known is None or known.principal != key.principal or key.checked_ms - known.checked_ms >= _OLD_MS

    def _forget(self) -> None:
        self._written = {}
        self._removal = asyncio.get_running_loop().create_task(asyncio.to_thread(self._path.unlink, missing_ok=True))

    def _encode(self, keys: dict[bytes, VerifiedKey]) -> bytes:
        kept = [
            _Kept(
                digest,
                who.key_id,
                who.tenant,
                sorted(who.scopes),
                who.limits,
                who.suspended,
                checked_ms,
                who.expires_ms,
            )
            for digest, (who, checked_ms) in keys.items()
        ]
        return msgspec.json.encode(_File(self._mark, kept))

    def _read(self) -> list[_Kept]:
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            log.warning("keys.unreadable", extra={"reason": str(error)})
            return []
        return file.keys[:_MOST_KEYS] if file.mark == self._mark else []


def _is_useful(who: Principal) -> bool:
    return who.tenant != OPERATOR and "submit" in who.scopes

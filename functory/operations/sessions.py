"""Who is signed in: a random id in a cookie, and its hash in the store (docs/decisions/0012-pages.md).

Ensures: the key cannot be derived from the cookie, and nothing in the store can be used as a cookie. A session ends
when it expires, when its owner signs out, and when its key is revoked or expires. It is valid on every daemon of the
store, also after a restart.
"""

import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

import msgspec

from functory.errors import Unauthorized
from functory.operations.keyring import KeyRing
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.verified_keys import LIFE_S

_COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_ENDED: Final = "the session has ended: sign in again"
_MAX_KNOWN: Final = 10_000
_LIFE_MS: Final = 12 * 3_600_000


class _Record(msgspec.Struct, frozen=True):
    """What the store keeps."""

    key_id: str
    expires_ms: int


class Session(NamedTuple):
    principal: Principal
    form_token: str
    """A token in every form of this session, which no other site can know."""
    expires_ms: int


class Sessions:
    def __init__(self, service: Service, keys: KeyRing) -> None:
        self._service = service
        self._keys = keys
        self._known: dict[str, tuple[_Record, int]] = {}
        """Records and when they were read, so that not every request reads the store."""

    async def open(self, principal: Principal) -> tuple[str, int]:
        """A new session's cookie, and when it ends."""
        cookie = secrets.token_urlsafe(32)
        expires_ms = self._service.now_ms() + _LIFE_MS
        record = _Record(principal.key_id, expires_ms)
        await self._service.store.put_note(_name(cookie), msgspec.json.encode(record), expires_ms=expires_ms)
        return cookie, expires_ms

    async def find(self, cookie: str | None) -> Session:
        """The session of a cookie. Raises Unauthorized, StoreUnavailable."""
        if cookie is None or _COOKIE.fullmatch(cookie) is None:
            raise Unauthorized(_ENDED)
        record = await self._record(_name(cookie))
        principal = await self._keys.recheck(record.key_id)
        return Session(principal, form_token_of(cookie), record.expires_ms)

    async def close(self, cookie: str) -> None:
        """End a session: at once here; other daemons notice when they read it again."""
        if _COOKIE.fullmatch(cookie):
            self._known.pop(_name(cookie), None)
            await self._service.store.drop_note(_name(cookie))

    async def _record(self, name: str) -> _Record:
        now_ms = self._service.now_ms()
        known = self._known.get(name)
        if known is None or abs(now_ms - known[1]) >= LIFE_S * 1000:
            self._known.pop(name, None)
            stored = await self._service.store.get_note(name, now_ms=now_ms)
            if stored is None:
                raise Unauthorized(_ENDED)
            if len(self._known) >= _MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[name] = known = (msgspec.json.decode(stored, type=_Record), now_ms)
        if known[0].expires_ms <= now_ms:
            raise Unauthorized(_ENDED)
        return known[0]


def form_token_of(cookie: str) -> str:
    """Bound to the session. The cookie cannot be derived from it."""
    return hmac.new(cookie.encode(), b"functory form", hashlib.sha256).hexdigest()


def _name(cookie: str) -> str:
    return "session:" + hashlib.sha256(cookie.encode()).hexdigest()

"""Who asks: the owner of a key, or, on a loopback listener that says so, one tenant without any.

A browser on the same machine can post to a loopback port from a page of any site. It names that site (`Origin`), and is
refused without a key.
"""

import time
from typing import NamedTuple

from functory.bedrock.call import KEYLESS
from functory.bedrock.messages import Request
from functory.errors import Forbidden, Unauthorized
from functory.operations.keyring import principal_of
from functory.operations.principal import OPERATOR, Principal
from functory.operations.verified_keys import LIFE_S
from functory.web.http.endpoint import Web, bearer
from functory.wire.scopes import TENANT_SCOPES


class _Known(NamedTuple):
    """Who acts without a key, since a moment ago. changes: of keys and tenants, as they were before the look."""

    since_s: float
    changes: int
    who: Principal


class Callers:
    def __init__(self, web: Web, tenant: str) -> None:
        self._web = web
        self._tenant = tenant
        self._known: _Known | None = None

    async def admit(self, request: Request) -> Principal:
        """Who asks, charged for one request. Raises Unauthorized, Forbidden, RateLimited, StoreUnavailable."""
        header = request.parameters.get("authorization")
        if header is not None or not self._tenant:
            who = await self.recognise(header)
        elif request.is_http and "origin" in request.parameters:
            raise Forbidden("pages of other sites are not served without a key")
        else:
            who = await self._without_key()
        self._web.charge(who)
        return who

    async def recognise(self, header: str | None) -> Principal:
        """The owner of a key. Raises Unauthorized, Forbidden, StoreUnavailable."""
        who = await self._web.keys.admit(bearer(header))
        if who.tenant == OPERATOR:
            raise Forbidden("an operator's key has no jobs: use a key of a tenant")
        return who

    async def _without_key(self) -> Principal:
        """As long as a key is trusted, and no longer than until keys or tenants change: what holds of keys then holds
        here, too."""
        now_s, changes = time.monotonic(), self._web.keys.changes
        known = self._known
        if known is not None and known.changes == changes and now_s - known.since_s < LIFE_S:
            return known.who
        who = await principal_of(self._web.service, self._tenant, KEYLESS, frozenset(TENANT_SCOPES))
        if who is None:
            raise Unauthorized(f"there is no tenant {self._tenant}: `functory tenant create {self._tenant}` makes it")
        self._known = _Known(now_s, changes, who)
        return who

"""Who asks: the result of authentication, and the only source of a tenant's name."""

from typing import Final, NamedTuple

from functory.errors import Forbidden, TenantSuspended
from functory.tenant_limits import TenantLimits
from functory.wire.scopes import Scope

OPERATOR: Final = ""
"""The tenant of the operator's keys."""


class Principal(NamedTuple):
    key_id: str
    tenant: str
    scopes: frozenset[str]
    limits: TenantLimits
    suspended: bool = False
    tenant_since_ms: int = 0
    """When the tenant was created, which tells it from an earlier one of its name; 0 if that was not read."""
    expires_ms: int | None = None
    """When the key ends by itself."""

    def has_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and self.expires_ms <= now_ms

    def require(self, scope: Scope) -> None:
        """Raises Forbidden unless the key has the scope. A suspended tenant can only read."""
        if scope not in self.scopes:
            raise Forbidden(
                f"the key {self.key_id} lacks the scope {scope!r}: use another key, or ask the operator for one",
                detail={"scope": scope},
            )
        if self.suspended and scope != "read":
            raise TenantSuspended(f"tenant {self.tenant} is suspended: it can read, and the operator can resume it")

    def require_tenant(self, tenant: str) -> None:
        """Raises Forbidden unless the path is of the key's own tenant. The answer is the same whether the other
        tenant exists or not."""
        if tenant != self.tenant:
            own = f"which is {self.tenant}; choose that tenant, or use another key"
            if self.tenant == OPERATOR:
                own = f"which is the operator's: use one of that tenant (`functory key create {tenant[:40]}` makes one)"
            raise Forbidden(
                f"{tenant[:40]!r} is not the tenant of the key, {own}",
                detail={"tenant": self.tenant},
            )

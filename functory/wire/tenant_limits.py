"""A tenant's limits as the store keeps them: `TenantLimits` to text and back. Written and read only here."""

import msgspec

from functory.wire.admin import TenantLimits
from store.base import Tenant


def encode_limits(limits: TenantLimits) -> str:
    given = {name: value for name, value in msgspec.structs.asdict(limits).items() if value is not None}
    return msgspec.json.encode(given).decode() if given else ""


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

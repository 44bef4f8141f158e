"""A tenant's limits: the value, and its form in the store. Written and read only here.

Ensures: what another version has stored can be read. Fields that this version does not know are passed over, and upper
bounds are checked only where limits are given (`wire/admin.py`). But nothing of which there is less than none passes.
"""

from typing import Final

import msgspec


class TenantLimits(msgspec.Struct, frozen=True):
    """Quotas of a tenant. None: no limit, or what the service does for all."""

    max_jobs: int | None = None
    max_bytes: int | None = None
    max_handlers: int | None = None
    max_types: int | None = None
    max_running: int | None = None
    max_running_per_type: int | None = None
    requests_per_s: float | None = None
    requests_burst: int | None = None
    network: bool | None = None
    hosts: str | None = None
    max_package_bytes: int | None = None


UNREADABLE: Final = TenantLimits(max_running=1, network=False, hosts="")
"""Of a tenant whose stored limits cannot be read: its jobs run, one batch at a time and without the network, until the
operator gives it limits anew."""


def encode_limits(limits: TenantLimits) -> str:
    given = {name: value for name, value in msgspec.structs.asdict(limits).items() if value is not None}
    return msgspec.json.encode(given).decode() if given else ""


def limits_from(text: str) -> TenantLimits:
    """The way back. What cannot be read is UNREADABLE, that object."""
    from handlers.hosts import parse_patterns  # noqa: PLC0415 (clients have the value, and their own `handlers`)

    try:
        limits = msgspec.json.decode(text, type=TenantLimits) if text else TenantLimits()
        parse_patterns(limits.hosts or "")
    except ValueError:  # of msgspec, too
        return UNREADABLE
    is_negative = any(isinstance(value, int | float) and value < 0 for value in msgspec.structs.astuple(limits))
    return UNREADABLE if is_negative else limits

"""What a key may do, and the names of a tenant's limits: also for the help of commands, which loads no codec."""

from typing import Final, Literal

Scope = Literal["submit", "read", "manage", "handlers", "work", "secrets", "operator", "metrics"]
"""submit jobs; read everything of the tenant; manage jobs (cancel, retry, replay, pause); handlers; work on jobs, as
workers do; set and delete secrets; and the operator's two, which no tenant's key can have: everything under `/admin`,
and only `/metrics`."""

TENANT_SCOPES: Final[tuple[Scope, ...]] = ("submit", "read", "manage", "handlers", "work", "secrets")
OPERATOR_SCOPES: Final[tuple[Scope, ...]] = ("operator", "metrics")

LIMITS: Final = (
    "max_jobs",
    "max_bytes",
    "max_handlers",
    "max_types",
    "max_running",
    "max_running_per_type",
    "requests_per_s",
    "requests_burst",
    "network",
    "hosts",
    "max_package_bytes",
)
"""The fields of `TenantLimits` (tenant_limits.py): a test compares them."""

"""Pure choice: which tenant, which jobtype, how many, and when again. No I/O; time and dice are passed in."""

from scheduler.policy import Policy
from scheduler.table import DEFAULT_POLICY, POLICIES, make_policy
from scheduler.values import Candidate, Hold, Pick, SchedulerOptions, TenantTerms, tenant_of

__all__ = [
    "DEFAULT_POLICY",
    "POLICIES",
    "Candidate",
    "Hold",
    "Pick",
    "Policy",
    "SchedulerOptions",
    "TenantTerms",
    "make_policy",
    "tenant_of",
]

"""What the daemon's settings mean for its parts."""

import random

from functory.config import Settings
from functory.consumers.leaders import LeaderSettings
from functory.daemon.languages import Languages
from functory.egress.meters import EgressLimits
from functory.execution.executor import ExecutorSettings
from functory.loops.courtesy import LONG_STEP
from scheduler import Policy, SchedulerOptions, make_policy
from scheduler.retry import RetryPolicy


def policy_of(settings: Settings) -> Policy:
    options = SchedulerOptions(slots=settings.slot_count, max_batch=LONG_STEP)
    return make_policy(settings.policy, options, random.random)


def egress_limits(settings: Settings) -> EgressLimits:
    connections = settings.egress_connections
    return EgressLimits(
        connections=connections,
        tenant_connections=max(1, connections // 4),
        hourly_bytes=settings.egress_hourly_bytes,
        tenant_hourly_bytes=settings.egress_tenant_hourly_bytes,
    )


def leader_settings(settings: Settings) -> LeaderSettings:
    retry = RetryPolicy(base_s=settings.retry_base_s, max_s=settings.retry_max_s)
    return LeaderSettings(settings.lease_s, settings.poll_s, retry)


def executor_settings(settings: Settings, languages: Languages) -> ExecutorSettings:
    return ExecutorSettings(
        lease_s=settings.lease_s, poll_s=settings.poll_s, retry=retry_policy(settings), languages=languages.able
    )


def retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(
        base_s=settings.retry_base_s,
        max_s=settings.retry_max_s,
        max_attempts=settings.max_attempts,
        window_s=settings.retry_window_s,
    )

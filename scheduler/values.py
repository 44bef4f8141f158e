"""What goes in and out of a policy: candidates, tenants' terms, picks, reasons to wait; and its settings."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from scheduler.errors import InvalidOptions


class Candidate(NamedTuple):
    """A jobtype with `waiting` jobs to claim now; 0 says that there are none any more.

    max_slots is the most batches of this type that may run at once (None: as many as the tenant may). priority is the
    highest of what waits: it counts among the types of one tenant only.
    """

    jobtype: str
    waiting: int
    oldest_due_ms: int = 0
    max_slots: int | None = None
    priority: int = 500


class TenantTerms(NamedTuple):
    """What a tenant is entitled to: its weight against the others', and the most slots it may hold at once."""

    weight: float = 1.0
    max_slots: int | None = None


class Pick(NamedTuple):
    """Run up to `jobs` jobs of this type, as one batch on one slot."""

    jobtype: str
    jobs: int


class Hold(StrEnum):
    """Why nothing of a jobtype is started at the moment."""

    NOT_WAITING = "not_waiting"
    """Nothing of it waits, as far as the policy has been told."""
    TYPE_CAP = "type_cap"
    """As many batches of it run as may."""
    TENANT_CAP = "tenant_cap"
    """Its tenant holds as many slots as it may."""
    TENANT_SHARE = "tenant_share"
    """Its tenant holds all slots but those that are kept for the others."""
    LONG_WORK = "long_work"
    """Long jobs hold all slots but those that are kept for shorter ones."""
    NO_SLOT = "no_slot"
    """Every slot is busy."""
    TURN = "turn"
    """It may start and waits only for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    slots: int
    """How many batches run at once. Take more than there are cores (one or two more): then the slot that is kept
    for other tenants costs no throughput."""

    target_batch_s: float = 0.1
    """A batch is sized to take about this long."""
    max_batch: int = 1000
    spread_s: float = 0.01
    """What waits is spread over the free slots, but not in batches smaller than this."""
    first_guess_s: float = 0.1
    """What one job of a type is taken to cost before one has run."""

    reserve_share: float = 0.125
    """The part of the slots that one tenant leaves to the others (at least one slot, at most half of them).
    Nothing is kept where there is one tenant, or one slot. 0: nothing is ever kept."""
    borrow_s: float = 0.0
    """Jobs that have been no longer than this may borrow the kept slots, in batches that give them back after this
    time. 0: nothing borrows. It trades trust in the tenants' code for the use of the last slot."""
    long_s: float = 1.0
    """Jobs longer than this, of all tenants together, leave the kept slots to the shorter ones (from 3 slots)."""

    most_extra_slots: int = 16
    """Where long jobs hold the kept slots, too, because they looked short, so many more are opened for tenants that
    hold none."""

    burst_s: float = 0.1
    """The most runner-seconds (per weight) that a tenant gains on the others by not having been busy."""
    warm_slack_s: float = 0.25
    """A type with a warm context goes before its siblings while it is ahead of them by no more than this."""
    remembered_types: int = 100_000
    """How many types are remembered with what their jobs take."""

    def __post_init__(self) -> None:
        if self.slots < 1 or self.max_batch < 1 or self.remembered_types < 1:
            raise InvalidOptions(f"slots, max_batch and remembered_types must be 1 or more: {self}")
        if self.most_extra_slots < 0:
            raise InvalidOptions(f"most_extra_slots must be 0 or more, not {self.most_extra_slots}")
        if not 0 <= self.reserve_share <= 0.5:
            raise InvalidOptions(f"reserve_share must be between 0 and 0.5, not {self.reserve_share}")
        for name in ("target_batch_s", "spread_s", "first_guess_s", "borrow_s", "long_s", "burst_s", "warm_slack_s"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise InvalidOptions(f"{name} must be a number of seconds, 0 or more, not {seconds}")

    @property
    def reserve_slots(self) -> int:
        """How many slots one tenant leaves to the others, when there are others."""
        if self.slots == 1 or self.reserve_share == 0:
            return 0
        return max(1, int(self.slots * self.reserve_share))


def check_terms(tenant: str, terms: TenantTerms) -> TenantTerms:
    if not (math.isfinite(terms.weight) and terms.weight > 0):
        raise InvalidOptions(f"the weight of tenant {tenant} must be more than 0, not {terms.weight}")
    if terms.max_slots is not None and terms.max_slots < 0:
        raise InvalidOptions(f"max_slots of tenant {tenant} must be 0 or more, not {terms.max_slots}")
    return terms

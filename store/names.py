"""The names that the store accepts, and the limits of what it keeps.

Every name that a caller passes is checked here before it reaches a database, so a back end never sees a hostile one.
The grammar itself is in `vocabulary.names`. Never repairs a name: it is right, or `InvalidValue` says what is wrong.
"""

import re
from functools import lru_cache
from typing import Final

from store.errors import InvalidValue
from vocabulary.names import MAX_LABEL_CHARS, is_job_id, is_jobtype, is_label, is_sysid, is_tenant, tenant_of

MAX_DATA_BYTES: Final = 16 * 1024 * 1024
MAX_RESULT_BYTES: Final = 16 * 1024 * 1024
MAX_LOG_BYTES: Final = 64 * 1024
MAX_OPTIONS_CHARS: Final = 16 * 1024
MAX_HANDLER_BYTES: Final = 8 * 1024 * 1024
MAX_SECRET_BYTES: Final = 64 * 1024
"""Of a sealed value."""
MAX_BEGIN_BYTES: Final = 1024
"""Of a payload in a listing."""
MAX_BATCH: Final = 10_000
"""Most jobs in one call of add, claim, renew or release: it bounds the time that one call can hold a writer."""

PRIORITIES: Final = (1000, 500, 0)
"""The priorities there are, first to run first."""

MAX_PER_KEY: Final = 10_000
"""The highest cap on the running jobs of one key."""
JOB_COST_US: Final = 1000
"""What a job costs its key when it is claimed. How long it ran is added when that is known."""
KEY_CREDIT_US: Final = 100_000
"""The runner time that a key which used less than its share may be ahead of the others."""

DONE_LOCK: Final = "__done"
PAUSED_LOCK: Final = "__paused"
"""Lock values that no daemon can have: a sysid is letters and digits."""

DONE_OFFSET_MS: Final = 31_556_952_000_000
"""A thousand years: what is added to the time of the end in the `dt` of an archived job."""

FORGOTTEN_AFTER_MS: Final = 30 * 86_400_000
"""A daemon whose lease on its sysid lapsed so long ago will not come back: its record is removed."""
AHEAD_MS: Final = 60_000
"""More than clocks of daemons that share a store may differ: what was done further ahead of now was done while the
clock was wrong."""
NEWEST_DAEMONS: Final = 200
"""The records of that many that came last stay however long ago they lapsed: one whose clock is a month ahead would
remove its own and those of others that live, and who has none must stop."""

MAX_SYSIDS_SKIPPED: Final = 36**5
"""Sysids have up to 8 base-36 digits: there is room for tens of thousands of such leaps."""

SECRET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
"""As names of environment variables are: that is what they become."""

MAX_CONTENT_BYTES: Final = 4 * 1024 * 1024
"""Of one piece of a file: four fit a document of MongoDB's."""
MAX_CONTENTS_AT_ONCE: Final = 2500
"""In one call."""
DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def check_tenant(tenant: str) -> str:
    if not is_tenant(tenant):
        raise InvalidValue(f"{tenant!r:.80} is not a tenant name: [a-z0-9] then up to 31 of [a-z0-9_]")
    return tenant


@lru_cache(maxsize=8192)
def checked_tenant_of(jobtype: str) -> str:
    """The tenant of a jobtype, which is checked on the way."""
    if not is_jobtype(jobtype):
        raise InvalidValue(f"{jobtype!r:.200} is not a jobtype: it reads tenant-type, both of plain characters")
    return tenant_of(jobtype)


def check_jobtype(tenant: str, jobtype: str) -> str:
    """The jobtype, if it belongs to the tenant. Ensures: no verb reaches another tenant's type by its name."""
    if checked_tenant_of(jobtype) != check_tenant(tenant):
        raise InvalidValue(f"jobtype {jobtype!r} does not belong to tenant {tenant!r}")
    return jobtype


def check_job_id(job_id: str, field: str = "") -> str:
    if not is_job_id(job_id):
        raise InvalidValue(f"{job_id!r:.120} is not a job id: 1 to 64 letters, digits, '-' and '_'", field=field)
    return job_id


@lru_cache(maxsize=64)
def check_owner(owner: str) -> str:
    if not is_sysid(owner):
        raise InvalidValue(f"{owner!r:.80} is not a sysid: 1 to 8 of [a-z0-9]")
    return owner


def check_label(what: str, label: str, field: str = "") -> str:
    """A free name (rate domain, unique name, key id, journal reader): 1 to 255 printable characters."""
    if not is_label(label):
        raise InvalidValue(
            f"{what} {label!r:.80} must be 1 to {MAX_LABEL_CHARS} characters of text without control characters",
            field=field,
        )
    return label


def check_batch(what: str, count: int) -> int:
    if count > MAX_BATCH:
        raise InvalidValue(f"{what}: {count} in one call, at most {MAX_BATCH}; split the batch")
    return count


def number_key(tenant: str, number: int) -> str:
    """The number of a job with its tenant, as back ends keep it in the job: unique in the store."""
    return f"{tenant}-{number}"


def number_of(key: str | None) -> int | None:
    return None if key is None else int(key.rpartition("-")[2])


def sysid_of(number: int) -> str:
    """The sysid with that number: its base-36 digits."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits

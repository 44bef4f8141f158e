"""Why a job stopped, and the states that a job can be in."""

from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """Why a job stopped. Retry and error are of one attempt; the other four are final."""

    RETRY = "retry"
    OK = "ok"
    FAILED = "failed"
    ERROR = "error"
    ABANDONED = "abandoned"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__
    """That of an enumeration is a call of Python for each job that passes."""


FINAL_CODES: Final = frozenset({Code.OK, Code.FAILED, Code.ABANDONED, Code.CANCELLED})

FAILED_CODES: Final = frozenset({Code.FAILED, Code.ABANDONED})
"""Of jobs that somebody may want to look at, and to run again. They are kept for longer."""

COUNTED_CODES: Final = (Code.OK, Code.FAILED, Code.RETRY, Code.ERROR, Code.ABANDONED, Code.CANCELLED)
"""In the order of the columns that count them. The place of a code in it is its number in SQLite: it never changes."""


class JobState(StrEnum):
    """The state of a job, which the pair (dt, lock) encodes: see `store.values.jobs.state_of`."""

    __hash__ = str.__hash__

    DEFERRED = "deferred"
    WAITING = "waiting"
    RUNNING = "running"
    LAPSED = "lapsed"
    PAUSED = "paused"
    ARCHIVED = "archived"


def state_word(state: str, *, is_on_hold: bool = False) -> str:
    """The state of a job for people. `paused` is said of what somebody has paused: types, daemons, tenants, and with
    is_on_hold a schedule. Any other job in that state is held, for its relatives or a consumer."""
    return "held" if state == "paused" and not is_on_hold else state

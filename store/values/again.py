"""What is said a second time: a request under its key, a job under its unique name."""

from typing import Final, NamedTuple

from store.values.jobs import NewJob

_LONGER_MS: Final = 600_000


class Binding(NamedTuple):
    """What a request that adds its jobs once leaves behind, where `get_once` finds it: under `more`, first, what else
    is to be known of it; under `key` its value; under `done`, after its jobs, that they are there. Nobody else writes
    under `more` and `done`."""

    tenant: str
    key: str
    value: bytes
    done: str
    expires_ms: int
    """Of the key. What says that its jobs are there lives longer: who finds the one finds the other."""
    more: tuple[str, bytes] | None = None

    @property
    def done_until_ms(self) -> int:
        return self.expires_ms + _LONGER_MS


def takes_time(job: NewJob, repeat: str, keeps: frozenset[str]) -> bool:
    """Whether a live job with the same unique name, and that repeat so far, is due from now on when this one is."""
    return keeps.isdisjoint({"repeat", "due"}) and job.repeat not in {"", repeat}


def says_it_again(job: NewJob, keeps: frozenset[str], repeat: str, priority: int, data: bytes) -> bool:
    """Whether it is the schedule that a live job with the same unique name has: nothing of that would change."""
    return (
        bool(job.repeat)
        and ("repeat" in keeps or job.repeat == repeat)
        and ("priority" in keeps or job.priority == priority)
        and ("data" in keeps or job.data == data)
    )

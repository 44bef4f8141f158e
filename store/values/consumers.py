"""Consumers as values: the record of one, who leads it, and its window over a numbered type."""

from typing import Final, NamedTuple

from vocabulary.states import Code

MAX_INDEX: Final = (1 << 53) - 1
"""Numbers of jobs and indexes of consumers: what every language and every database counts exactly."""
MAX_WINDOW: Final = 10_000
"""Most indexes in one look at a window, and so the most that a consumer may search ahead."""


class ConsumerRecord(NamedTuple):
    """A consumer of a tenant, which works through the numbered jobs of one jobtype.

    settings is the application's own text, note what the leader keeps beside it; both come back as they were given.
    leader is a sysid, "" if there was none yet; it holds until_ms. token grows with every change of the leader and with
    every stop, so that a former leader can change nothing any more. is_pulled: only `append_job` numbers jobs of the
    type.
    """

    tenant: str
    name: str
    jobtype: str
    settings: str
    created_ms: int
    is_running: bool = True
    is_ending: bool = False
    note: str = ""
    leader: str = ""
    token: int = 0
    until_ms: int = 0
    is_pulled: bool = False


class WindowMove(NamedTuple):
    """What a leader asks for: progress up to `processed`, jobs up to `released` let into the queue, a look at those
    after `after`. skip_failed: progress may pass jobs that did not end well."""

    tenant: str
    name: str
    token: int
    processed: int
    released: int
    after: int
    skip_failed: bool
    note: str


class IndexEnd(NamedTuple):
    """A number whose job is over: its id and how it ended; "" and None if the job was deleted or purged."""

    seq: int
    job_id: str
    code: Code | None


class WindowReport(NamedTuple):
    """The window as it is: the last number given, progress, how far jobs were let into the queue, and which of those
    that were looked at are over, in order."""

    head: int
    processed: int
    released: int
    ends: tuple[IndexEnd, ...]


class HoldReport(NamedTuple):
    """A step through the jobs that were in the queue before the consumer. Go on after `after`; None: it is over."""

    held: int
    after: int | None


class EndReport(NamedTuple):
    """A step of the end of a consumer: jobs that were let into the queue, and whether more are held."""

    freed: int
    more: bool

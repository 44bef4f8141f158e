"""Types of the interface: consumers of numbered types."""

from typing import Annotated, Literal

from msgspec import Meta, field

from functory.wire.base import Answer, Request, TypeName

Index = Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]
Window = Annotated[int, Meta(ge=1, le=10_000)]
OnFailed = Literal["block", "skip"]


class ConsumerBody(Request):
    """A consumer: `source` is the type whose jobs it works through, in the order of their numbers.

    `pull` names a type whose handler is asked for the jobs when there is a worker for them, instead of waiting for
    them to be posted. `start_index` is where a new consumer begins, if not at the progress of the source. `on_progress`
    names a type: it gets a job with the index each time consecutive progress has moved. `next` is the source of the
    next stage of a pipeline: while its consumer has more than `max_lag` left to do, this one starts nothing new.
    """

    source: TypeName
    pull: TypeName | None = None
    max_processing: Window = 100
    max_search_ahead: Window = 1000
    start_index: Index | None = None
    on_failed: OnFailed = "block"
    on_progress: TypeName | None = None
    next: TypeName | None = None
    max_lag: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 1000


class ConsumerGap(Answer):
    """The index that progress waits for. `code` if its job has ended, and not well. `since_ms`: in this state since.
    `next_ms`: when the job is tried again, after so many `tries`. `why`: what keeps it from that, or from ending."""

    index: int
    job_id: str
    state: str
    since_ms: int
    code: str | None = None
    tries: int = 0
    next_ms: int | None = None
    why: str = ""


class SkippedIndex(Answer):
    index: int
    job_id: str
    code: str
    at_ms: int


class WindowSpan(Answer):
    """Indexes from first to last: `done`, `in_work`, or `failed`."""

    first: int
    last: int
    state: Literal["done", "in_work", "failed"]


class Consumer(Answer):
    """`trouble` is what is wrong with a source that is pulled. `lag` is what is left to do: head - processed. `leader`
    is the daemon that leads it, until `lease_until_ms`."""

    name: str
    source: str
    pull: str | None
    trouble: str | None
    state: Literal["running", "stopped", "deleting"]
    max_processing: int
    max_search_ahead: int
    start_index: int | None
    on_failed: str
    on_progress: str | None
    next: str | None
    max_lag: int
    processed: int
    head: int
    lag: int
    leader: str | None
    lease_until_ms: int | None
    skips: int
    skipped: list[SkippedIndex] = field(default_factory=list)


class ConsumerDetail(Consumer, kw_only=True):
    """`gap` is None when there is nothing to wait for. `window` has everything after `processed` that has started.
    `next_lag` is what the next stage has left to do."""

    in_work: int
    done_ahead: int
    failed: int
    gap: ConsumerGap | None
    window: list[WindowSpan]
    next_lag: int | None


class ConsumerList(Answer):
    consumers: list[Consumer]


class ConsumerCreated(Answer):
    created: bool


class ConsumerChecked(Answer):
    """`leader` looks: at once if it is the daemon that answered, otherwise within its poll."""

    leader: str | None


class ConsumerDeleteQuery(Request):
    """`only_deleting`: go on with a deletion that has begun. A consumer that nobody deletes is left alone."""

    only_deleting: bool = False


class ConsumerDeleted(Answer):
    """Jobs that the consumer held are in the queue now. Call again while `more`, with `only_deleting`."""

    freed: int
    more: bool

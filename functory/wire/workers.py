"""Workers on the wire: taking jobs, renewing leases, reporting, giving back (docs/workers.md)."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from functory.wire.base import MAX_DELAY_S, Answer, DelaySeconds, Encoding, JobId, Request, TypeName, whole
from functory.wire.jobs import FollowedJob, TypePattern
from vocabulary.names import TYPE

Token = Annotated[int, Meta(ge=0, le=1 << 53)]
Word = Annotated[str, Meta(max_length=100, pattern=whole("[ -~]*"))]
LeaseSeconds = Annotated[float, Meta(ge=1, le=86_400)]
Base64 = Annotated[str, Meta(max_length=23_000_000)]
MOST_LOG_CHARS: Final = 65_536
MOST_NEW_JOBS: Final = 1000
MOST_OPTION_CHARS: Final = 2000
"""Bounds of what an item of a report says. They are in the schema, and checked item by item: an item that passes one is
refused, and the others are recorded."""


class WorkerBody(Request):
    """What a worker says of itself. Jobs that it holds go back when it says goodbye under this name."""

    name: Word = ""
    host: Word = ""
    version: Word = ""
    capacity: Annotated[int, Meta(ge=1, le=100_000, description="jobs that it works on at once; shown")] = 1


class TakeBody(Request):
    """Which jobs, how many, and for how long to wait for them. `lease_s`: until a renewal is due; the type's own when
    left out."""

    types: Annotated[list[TypePattern], Meta(min_length=1, max_length=20, description="types, or GLOB patterns")]
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1
    wait_s: Annotated[float, Meta(ge=0, le=60)] = 0.0
    lease_s: LeaseSeconds | None = None
    encoding: Annotated[
        Literal["auto", "base64"], Meta(description="of payloads; auto: text where that loses nothing")
    ] = "auto"
    worker: WorkerBody = field(default_factory=WorkerBody)


class LeaseBody(Request):
    """One delivery of a job, as it was taken."""

    id: JobId
    token: Token


class RenewBody(Request):
    """Without `lease_s`, each lease is renewed for as long as it was taken for. Another daemon than the one that handed
    the job out takes that from what is left of the lease: renew before half of it is over."""

    leases: Annotated[list[LeaseBody], Meta(min_length=1, max_length=1000)]
    lease_s: LeaseSeconds | None = None


class MadeJob(Request):
    """A job that a job makes. A payload that is no string is kept as its JSON text. `options` read like the query of
    the route that adds jobs; `child=1` makes it a child of the job that makes it."""

    type: Annotated[str, Meta(extra_json_schema={"pattern": f"^{TYPE}$"})]
    options: Annotated[str, Meta(extra_json_schema={"maxLength": MOST_OPTION_CHARS})] = ""
    payload: Raw | UnsetType = UNSET
    payload_base64: Base64 | UnsetType = UNSET


class ReportItem(LeaseBody):
    """How a job ended, or, without `outcome` and `exitcode`, what it says while it runs. `result` of a job that did not
    end well is the text of the error. `delay_s` and `payload` are for the next attempt or round."""

    outcome: Literal["ok", "failed", "retry", "error"] | None = None
    exitcode: (
        Annotated[
            int,
            Meta(
                description="1xx retry, 2xx ok, 4xx failed, 5xx error",
                extra_json_schema={"minimum": 100, "maximum": 599},
            ),
        ]
        | None
    ) = None
    result: Raw | UnsetType = UNSET
    result_base64: Base64 | UnsetType = UNSET
    delay_s: Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_DELAY_S})] | None = None
    payload: Raw | UnsetType = UNSET
    payload_base64: Base64 | UnsetType = UNSET
    progress: Raw | UnsetType = UNSET
    log: Annotated[
        str, Meta(description="lines that are added to its log", extra_json_schema={"maxLength": MOST_LOG_CHARS})
    ] = ""
    new_jobs: Annotated[list[MadeJob], Meta(extra_json_schema={"maxItems": MOST_NEW_JOBS})] = field(
        default_factory=list
    )


class ReportBody(Request):
    """Reports of many jobs. With `take`, the next jobs come with the answer."""

    reports: Annotated[list[ReportItem], Meta(max_length=1000)]
    take: TakeBody | None = None


class ReturnBody(Request):
    """Jobs that were not begun. With `goodbye`, everything that the worker of this name holds: the
    verdicts are of what it took from this daemon, and others give back what it took from them in a moment."""

    leases: Annotated[list[LeaseBody], Meta(max_length=1000)] = field(default_factory=list)
    goodbye: Word = ""


class TakenChild(Answer):
    """A child of a job that was taken. `code` and what follows are null while it has not ended. `result`: its first
    64 KB, and less if those of all children are over 4 MB; `result_bytes` says how long it is."""

    id: str
    type: str
    state: str
    code: str | None
    exitcode: int | None
    result: str | None
    result_bytes: int | None


class TakenJob(Answer):
    """A job to work on. `timeout_s`: how long it can be held with all renewals; null: as long as it is renewed.
    `children`: up to 1,000 of those that it has had. A job that made some is delivered again when they have ended."""

    id: str
    type: str
    token: int
    payload: str
    payload_encoding: Encoding
    attempts: int
    lease_until_ms: int
    lease_s: float
    timeout_s: float | None
    is_renewable: bool
    priority: int
    created_ms: int
    due_ms: int
    parent: str = ""
    follows: FollowedJob | None = None
    options: Any = None
    children: list[TakenChild] = field(default_factory=list)


class TakenJobs(Answer):
    """`drain`: this worker gets no more jobs; it should end those that it has, and stop."""

    jobs: list[TakenJob]
    drain: bool = False


class MoveBody(LeaseBody):
    """A job that goes on as one of another type: after `delay_s`, with this payload or its own."""

    type: TypeName
    delay_s: DelaySeconds = 0.0
    payload: Raw | UnsetType = UNSET
    payload_base64: Annotated[str, Meta(max_length=2_000_000)] | UnsetType = UNSET


class DrainBody(Request):
    """`drained` false: the worker gets jobs again."""

    worker: Word
    drained: bool = True


class VerdictRow(Answer):
    """What became of one item. `status`: 200 done; 404 unknown; 408 timed out, 409 late: stop working on it, nothing
    was changed. Of `refused`: the exit code with which the job has failed, or 422: the item makes no sense, and nothing
    was recorded. `message` says why. `code` is the outcome that was recorded; of `refused` with 413 and none, nothing
    could be, and the lease will lapse."""

    id: str
    answer: Literal["ok", "late", "unknown", "fixed", "timed_out", "refused"]
    status: int
    lease_until_ms: int | None = None
    code: str = ""
    message: str = ""


class Verdicts(Answer):
    """In the order of the request."""

    verdicts: list[VerdictRow]


class Reported(Verdicts):
    """`jobs` and `drain` are those of `take`."""

    jobs: list[TakenJob] = field(default_factory=list)
    drain: bool = False


class WorkerRow(Answer):
    """A worker as it last asked for jobs. `running`: jobs that it holds. `per_minute`: jobs that it ends, of the daemon
    that it asked last."""

    name: str
    host: str
    version: str
    capacity: int
    types: list[str]
    asked_ms: int
    running: int
    per_minute: float
    daemon: str
    is_draining: bool


class WorkerList(Answer):
    workers: list[WorkerRow]

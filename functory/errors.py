"""The errors of the application: one tree, each class with a stable `code`. `functory.statuses` maps them all.

FunctoryError
├── BadRequest              the request cannot be read: malformed JSON, broken gzip, no such encoding
├── InvalidInput            it was read, and a value in it is not allowed
│   ├── IdempotencyMismatch the idempotency key was used before, for another request
│   └── RefusedInput        a queue refuses it (`functory.queue`); also a ClientError
├── Unauthorized            no key, or one that is not known, has expired or was revoked
├── Forbidden               the key does not reach this: another tenant's path, a scope that it lacks
│   └── TenantSuspended     the operator has suspended the tenant: it may read, and nothing else
├── UnknownHost             a page was asked for under a name that nobody has said is this service's
├── Missing                 there is no such thing for this tenant
├── RequestTooLarge         the decoded body, or something in it, is over a limit
├── RequestTooSlow          the body did not arrive in time
├── RateLimited             the key has used up its requests for now
├── QuotaExceeded           the tenant has stored as much as it may
├── LanguageUnavailable     no context of the handler's language starts on any daemon; the message says why
├── LeaseLost               a worker has lost a job that it worked on: its outcome does not count
├── WorkerDrained           a worker was asked to take no more jobs
├── NotReadyYet             the daemon cannot tell yet; the same request will do a little later
├── InvalidConfig           a setting is wrong; the message names it and its place
├── InvalidBackup           a backup is damaged, unfinished, or not one that this version can read
├── NotEmpty                what should be filled holds something already; nothing of it was touched
├── StillRunning            a daemon uses what must be at rest; nothing was changed
├── TransferFailed          what arrived in the other store is not what was sent
├── DaemonFailed            a part of the daemon ended although it must not; the daemon stops
├── NotEndedYet             a job that a client waits for goes on, and the time is up (`functory.sync`)
├── JobFailed               a job did not end well, and its caller asked to be told so (`functory.sync`)
├── ServerUnreachable       a client found no server at the address, or it did not answer
└── ClientError             a client got an answer that is an error
    ├── NotFound            of a queue, in this process too: what is named does not exist
    ├── Conflict            the same: it is in a state in which this cannot be
    └── OverLimit           the same: too large, or too many

Messages are shown to tenants as they are: they say what was wrong, where, and what to do.
"""

from collections.abc import Mapping
from typing import ClassVar, Final


class FunctoryError(Exception):
    """`detail` is for machines; `retry_after_s` says when the same request may do better."""

    code: ClassVar[str] = "functory_error"

    def __init__(
        self, message: str, *, detail: Mapping[str, object] | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.detail = dict(detail or {})
        self.retry_after_s = retry_after_s


class BadRequest(FunctoryError):
    code = "bad_request"


class InvalidInput(FunctoryError):
    code = "invalid_input"


class IdempotencyMismatch(InvalidInput):
    code = "idempotency_mismatch"


class Unauthorized(FunctoryError):
    code = "unauthorized"


class Forbidden(FunctoryError):
    code = "forbidden"


class TenantSuspended(Forbidden):
    code = "tenant_suspended"


class UnknownHost(FunctoryError):
    code = "unknown_host"


class Missing(FunctoryError):
    code = "missing"


class RequestTooLarge(FunctoryError):
    code = "request_too_large"


class RequestTooSlow(FunctoryError):
    code = "request_too_slow"


class RateLimited(FunctoryError):
    code = "rate_limited"


class QuotaExceeded(FunctoryError):
    code = "quota_exceeded"


class LanguageUnavailable(FunctoryError):
    code = "language_unavailable"


class LeaseLost(FunctoryError):
    code = "lease_lost"


class WorkerDrained(FunctoryError):
    code = "worker_drained"


class NotReadyYet(FunctoryError):
    code = "not_ready_yet"


class InvalidConfig(FunctoryError):
    code = "invalid_config"


class InvalidBackup(FunctoryError):
    code = "invalid_backup"


class NotEmpty(FunctoryError):
    code = "not_empty"


class StillRunning(FunctoryError):
    code = "still_running"


class TransferFailed(FunctoryError):
    code = "transfer_failed"


class DaemonFailed(FunctoryError):
    code = "daemon_failed"


class NotEndedYet(FunctoryError):
    code = "not_ended_yet"


class JobFailed(FunctoryError):
    code = "job_failed"


class ServerUnreachable(FunctoryError):
    code = "server_unreachable"


UNREADABLE: Final = "unreadable"
"""The word for an answer that is none of the server's own: a proxy's, say."""


class ClientError(FunctoryError):
    """An answer that is an error. `status` is the HTTP status, `error_code` the server's word for it."""

    code = "client_error"

    def __init__(
        self, status: int, error_code: str, message: str, detail: Mapping[str, object], retry_after_s: float | None
    ) -> None:
        super().__init__(f"{message} ({error_code})", detail=detail, retry_after_s=retry_after_s)
        self.status = status
        self.error_code = error_code


class RefusedInput(InvalidInput, ClientError):
    code = "refused_input"
    __init__ = ClientError.__init__


class NotFound(ClientError):
    code = "refused_not_found"


class Conflict(ClientError):
    code = "refused_conflict"


class OverLimit(ClientError):
    code = "refused_over_limit"

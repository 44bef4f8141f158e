"""The table from error classes to HTTP status, and from HTTP status to the exit code of the command line.

It covers the trees of journal, store, handlers, runner and functory, and the error of the vocabulary; a test checks
that every class is in it. An error that is not in it is a defect: status 500, and its text stays in the log.
"""

from typing import Final

import handlers.errors as of_handlers
import journal.errors as of_journal
import runner.errors as of_runner
import store.errors as of_store
from functory import errors as ours
from vocabulary.glob import PatternTooLong

STATUSES: Final[dict[type[Exception], int]] = {
    ours.FunctoryError: 500,
    ours.BadRequest: 400,
    ours.InvalidInput: 422,
    ours.IdempotencyMismatch: 422,
    ours.Unauthorized: 401,
    ours.Forbidden: 403,
    ours.TenantSuspended: 403,
    ours.UnknownHost: 421,
    ours.Missing: 404,
    ours.RequestTooLarge: 413,
    ours.RequestTooSlow: 408,
    ours.RateLimited: 429,
    ours.QuotaExceeded: 429,
    ours.LanguageUnavailable: 503,
    ours.LeaseLost: 409,
    ours.WorkerDrained: 409,
    ours.NotReadyYet: 503,
    ours.InvalidConfig: 422,
    ours.InvalidBackup: 422,
    ours.NotEmpty: 409,
    ours.StillRunning: 409,
    ours.TransferFailed: 500,
    ours.DaemonFailed: 500,
    ours.NotEndedYet: 503,
    ours.JobFailed: 500,
    ours.ServerUnreachable: 503,
    ours.ClientError: 500,
    ours.RefusedInput: 422,
    ours.NotFound: 404,
    ours.Conflict: 409,
    ours.OverLimit: 413,
    PatternTooLong: 422,
    of_journal.JournalError: 500,
    of_journal.InvalidWrite: 422,
    of_journal.LimitExceeded: 413,
    of_journal.JournalUnavailable: 503,
    of_journal.DiskFull: 507,
    of_journal.BacklogFull: 503,
    of_journal.JournalClosed: 503,
    of_journal.JournalLocked: 500,
    of_journal.ReservationLapsed: 500,
    of_journal.ReservationUnread: 500,
    of_journal.UnsupportedFormat: 422,
    of_store.StoreError: 500,
    of_store.StoreUnavailable: 503,
    of_store.StoreFull: 507,
    of_store.StoreLost: 503,
    of_store.StoreClosed: 503,
    of_store.StoreCorrupt: 500,
    of_store.SchemaTooNew: 422,
    of_store.UnsupportedStore: 422,
    of_store.InvalidValue: 422,
    of_store.NotFound: 404,
    of_store.Conflict: 409,
    of_handlers.HandlerError: 422,
    of_handlers.InvalidHandlerError: 422,
    of_handlers.HandlerSyntaxError: 422,
    of_runner.RunnerError: 500,
    of_runner.LaunchError: 503,
    of_runner.IsolationError: 503,
    of_runner.ProgramError: 503,
    of_runner.ProtocolError: 503,
    of_runner.OutputError: 503,
    of_runner.ContextLostError: 503,
    of_runner.ContextEndedError: 503,
    of_runner.RefusedError: 422,
    of_runner.SecretMissingError: 422,
    of_runner.FilesMissingError: 503,
    of_runner.SecretsLockedError: 503,
    of_runner.PackagesRefusedError: 422,
    of_runner.PackagesBusyError: 429,
    of_runner.PackagesMissingError: 503,
    of_runner.TargetRefusedError: 422,
}

_EXIT_CODES: Final = {400: 2, 422: 2, 401: 3, 403: 3, 404: 4, 409: 5, 408: 6, 413: 6, 429: 6, 503: 7, 507: 7}
"""2 usage, 3 not allowed, 4 not found, 5 conflict, 6 over a limit, 7 not available now, 1 everything else. The command
line adds 8: a file that does not exist or may not be read."""

_RETRY_AFTER_S: Final = {429: 1.0, 503: 1.0, 507: 30.0}


def status_of(error: BaseException) -> int:
    """The status of the nearest class in the table; 500 for classes that are in none of the trees."""
    for kind in type(error).__mro__:
        status = STATUSES.get(kind)
        if status is not None:
            return status
    return 500


def code_of(error: BaseException) -> str:
    """The stable code of an error of ours, `internal` for anything else."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and status_of(error) != 500 else "internal"


def retry_after_s_of(error: BaseException, status: int) -> float | None:
    """How long the caller should wait before the same request again; None when waiting will not help."""
    asked = getattr(error, "retry_after_s", None)
    return asked if isinstance(asked, float) else _RETRY_AFTER_S.get(status)


def exit_code_of_status(status: int) -> int:
    return _EXIT_CODES.get(status, 1)


def exit_code_of(error: BaseException) -> int:
    """The exit code of a command that this error ended."""
    return exit_code_of_status(status_of(error))

"""From the error that ended a command to its exit code. Imported only when there is one."""

from typing import Final

from functory.errors import ClientError, FunctoryError, ServerUnreachable
from functory.statuses import exit_code_of, exit_code_of_status
from handlers.errors import HandlerError
from journal import JournalError
from runner.errors import RunnerError
from store.errors import StoreError

_NO_FILE: Final = 8


def exit_code_of_failure(error: Exception) -> int | None:
    """None for a defect, which is no error of ours. An error from a server counts as if it had happened here."""
    if isinstance(error, OSError):
        return _NO_FILE
    if isinstance(error, ClientError):
        return exit_code_of_status(error.status)
    if isinstance(error, ServerUnreachable):
        return exit_code_of_status(503)
    if isinstance(error, FunctoryError | HandlerError | JournalError | RunnerError | StoreError):
        return exit_code_of(error)
    return None

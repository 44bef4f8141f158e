"""From the error that ended a command to its exit code, and to what its user may try. Imported only when there is
one."""

import argparse
from typing import Final

from functory.errors import ClientError, FunctoryError, ServerUnreachable
from functory.statuses import exit_code_of, exit_code_of_status
from functory.wire.scopes import OPERATOR_SCOPES
from handlers.errors import HandlerError
from journal import JournalError
from runner.errors import RunnerError
from store.errors import StoreError

_NO_FILE: Final = 8
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403


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


def advice_on(error: Exception, arguments: argparse.Namespace) -> str:
    """What helps at a terminal, beside what the server says to every client; empty if there is nothing."""
    if not isinstance(error, ClientError):
        return ""
    if error.status == _UNAUTHORIZED:
        if "job_key" in arguments and not (arguments.key or "").startswith("fk_"):
            return "--key is your API key, which begins with fk_; the key of a job is --job-key"
        return "the key comes from FUNCTORY_KEY, --key or --key-file"
    if error.status == _FORBIDDEN and error.detail.get("scope") in OPERATOR_SCOPES:
        return "the operator's key is a file in the data directory of the daemon: --key-file functory-data/operator.key"
    return ""

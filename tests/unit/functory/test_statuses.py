"""The one table of errors: complete, and right about what callers may know."""

import pytest

from functory import errors
from functory.statuses import STATUSES, code_of, exit_code_of, retry_after_s_of, status_of
from handlers.errors import HandlerError
from journal.errors import DiskFull, JournalError
from runner.errors import RunnerError
from store.errors import StoreError, StoreUnavailable
from vocabulary.glob import PatternTooLong

ROOTS = (errors.FunctoryError, JournalError, StoreError, HandlerError, RunnerError, PatternTooLong)


def tree(root: type[Exception]) -> list[type[Exception]]:
    return [root, *(below for child in root.__subclasses__() for below in tree(child))]


ALL = {kind for root in ROOTS for kind in tree(root) if kind.__module__.split(".")[0] != "tests"}


def test_every_error_of_every_package_has_a_row() -> None:
    assert STATUSES.keys() >= ALL, {kind.__name__ for kind in ALL - STATUSES.keys()}


def test_every_row_is_an_error_that_exists_and_codes_are_unique() -> None:
    assert STATUSES.keys() == ALL
    codes = [str(vars(kind)["code"]) for kind in ALL]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("error", "status", "code", "exit_code"),
    [
        (errors.Missing("x"), 404, "missing", 4),
        (errors.QuotaExceeded("x"), 429, "quota_exceeded", 6),
        (DiskFull("x"), 507, "disk_full", 7),
        (StoreUnavailable("x"), 503, "store_unavailable", 7),
        (PatternTooLong("x"), 422, "pattern_too_long", 2),
        (StoreError("x"), 500, "internal", 1),
        (ZeroDivisionError("x"), 500, "internal", 1),
    ],
)
def test_what_an_error_becomes(error: Exception, status: int, code: str, exit_code: int) -> None:
    assert (status_of(error), code_of(error), exit_code_of(error)) == (status, code, exit_code)


def test_waiting_is_advised_only_where_it_helps() -> None:
    assert retry_after_s_of(errors.RateLimited("x", retry_after_s=7.5), 429) == 7.5
    assert retry_after_s_of(StoreUnavailable("x"), 503) == 1.0
    assert retry_after_s_of(errors.Missing("x"), 404) is None

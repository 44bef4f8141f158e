"""The rule for a missing optional tool or server: skipped with its reason, a failure when CI is set."""

import os
import shutil
from typing import NoReturn

import pytest


def missing(what: str, how_to_get_it: str) -> NoReturn:
    reason = f"{what} is missing; {how_to_get_it}"
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (CI is set, so this is a failure and not a skip)", pytrace=False)
    pytest.skip(reason)


def need_command(command: str, package: str) -> str:
    """The path of `command`; without it the test is skipped, or fails in CI."""
    path = shutil.which(command)
    if path is None:
        missing(command, f"install it with `make system` (Debian package {package})")
    return path

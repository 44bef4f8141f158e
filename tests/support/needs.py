"""The rule for a missing optional tool or server: skipped with its reason, a failure when CI is set."""

import os
import shutil
from functools import cache
from typing import NoReturn

import pytest

from runner.launch import Level
from runner.sandbox import layers


def missing(what: str, how_to_get_it: str) -> NoReturn:
    reason = f"{what} is missing; {how_to_get_it}"
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (CI is set, so this is a failure and not a skip)", pytrace=False)
    pytest.skip(reason)


@cache
def _level_here() -> Level:
    return layers.level_of(layers.available(layers.detect()))


def need_isolation() -> None:
    """For tests that run handlers as the service does: without bubblewrap and without root there is no isolation."""
    if _level_here() < Level.L1:
        missing("isolation of any level", "install bubblewrap (`make system`), or run the tests as root")


def need_command(command: str, package: str) -> str:
    """The path of `command`; without it the test is skipped, or fails in CI."""
    path = shutil.which(command)
    if path is None:
        missing(command, f"install it with `make system` (Debian package {package})")
    return path

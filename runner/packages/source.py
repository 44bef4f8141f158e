"""The seam between the runner and whoever installs packages: what is asked for, and what one gets."""

import enum
from collections.abc import Callable
from typing import NamedTuple, Protocol

from handlers.packages import Lock
from runner.errors import PackagesMissingError
from runner.packages.trees import Tree

Tell = Callable[[str], None]
"""Hears each step while packages are resolved or installed: one short line. Called on the event loop; it returns at
once and never raises."""


def nobody(_: str) -> None:
    """Nobody listens."""


class State(enum.StrEnum):
    READY = "ready"
    BUILDING = "building"
    FAILED = "failed"
    ABSENT = "absent"  # nobody has asked for it yet


class Progress(NamedTuple):
    """How far the packages of a lock are on this daemon. `text` is the last thing said: a step, or why it failed."""

    state: State
    text: str = ""


class PackageSource(Protocol):
    def is_ready(self, tenant: str, lock: Lock) -> bool:
        """Whether contexts can be started with these packages at once. If not, they are on their way."""

    async def have(self, jobtype: str, lock: Lock, tell: Tell = nobody) -> Tree:
        """The tree for a handler of the type, built now if it must be. Raises PackagesRefusedError,
        PackagesMissingError, PackagesBusyError."""


class NoPackageSource:
    """For runners that install nothing."""

    def is_ready(self, tenant: str, lock: Lock) -> bool:  # noqa: ARG002 (the protocol's)
        return False

    async def have(self, jobtype: str, lock: Lock, tell: Tell = nobody) -> Tree:  # noqa: ARG002
        raise PackagesMissingError("this service installs no packages")

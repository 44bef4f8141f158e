"""What the intake asks of the straight way (docs/decisions/0020-the-straight-way.md)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from store.base import NewJob


class StraightIntake(Protocol):
    """Takes lines that need not wait for the store (execution/straight/way.py)."""

    def admits(self, jobtype: str, lines: Sequence[bytes]) -> bool:
        """Whether jobs of these lines could start as soon as they are durable, or as soon as the jobs before them have
        started."""

    def take(self, jobs: Sequence[NewJob]) -> None:
        """They are durable."""

    def may_follow(self, jobtype: str, lines: Sequence[bytes]) -> bool:
        """Whether jobs of these lines, which have waited for the reader, could start now."""

    def follow(self, jobs: Sequence[NewJob]) -> None:
        """The reader has come to these jobs of one type, and `may_follow` said yes in this turn of the event loop."""

    async def room(self, next_type: Callable[[], str | None]) -> None:
        """Wait while the reader need not bring more. next_type: of what it would bring, "" if nobody knows; None if it
        should not wait in any case."""

    def look_for_room(self) -> None:
        """next_type would say something else."""

    def give_way(self, jobtype: str, *, is_urgent: bool) -> None:
        """Jobs of the type that come now take the long way: those that wait for others go there before them; where
        these are urgent, so do all that wait."""

    def give_way_to_all(self) -> None:
        """The journal fills: whatever waits takes the long way."""

    def may_run(self, jobtype: str) -> bool:
        """Whether anybody may run jobs of the type, here or elsewhere. In doubt, yes."""

    async def flush(self, tenant: str) -> None:
        """Wait until nothing that was taken so far is held any more. Raises StoreUnavailable."""

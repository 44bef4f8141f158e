"""What all back ends agree on when they claim jobs, and when those end: the numbers, and what a discard is. Pure."""

from collections.abc import Sequence
from typing import Final

from store.values.jobs import Archive, Discard, Release

WINDOW: Final = 16
"""Lanes with a rate domain that a claim compares at a time, or beyond the jobs that it wants."""
MOST_WOKEN: Final = 1000
"""Turns of keys whose time has come that one claim opens."""
TURN_WAIT_MS: Final = 1000
"""After this long a turn that is full, or whose rate domain has no token, is looked at again: the cap or the rate may
have been changed, or a process died before it opened the turn."""
MAX_CHILDREN: Final = 1000
"""Whose state the end of a parent changes itself, because others wait for it: some 25 ms in a file. expire_locks does
the rest."""


def archives(releases: Sequence[Release]) -> Sequence[Release]:
    """The releases, as if all were kept."""
    if Discard not in set(map(type, releases)):
        return releases
    return [Archive(*release) if isinstance(release, Discard) else release for release in releases]

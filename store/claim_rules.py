"""Numbers that all back ends agree on when they claim jobs, and when those end."""

from typing import Final

WINDOW: Final = 16
"""Lanes with a rate domain that a claim compares at a time, or beyond the jobs that it wants."""
MOST_WOKEN: Final = 1000
"""Turns of keys whose time has come that one claim opens."""
TURN_WAIT_MS: Final = 1000
"""After this long a turn that is full is looked at again: the cap may have been changed, or a process died before it
opened the turn."""
MAX_CHILDREN: Final = 1000
"""Whose state the end of a parent changes itself, because others wait for it: some 25 ms in a file. expire_locks does
the rest."""

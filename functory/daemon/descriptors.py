"""How many files and connections the process may have open."""

import resource
from contextlib import suppress
from typing import Final

_ENOUGH: Final = 65_536


def allow_descriptors() -> None:
    """As many as the operator lets it have: the usual soft limit of 1,024 is for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

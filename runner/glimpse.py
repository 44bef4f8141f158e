"""A look at a job while it runs."""

from typing import NamedTuple


class Glimpse(NamedTuple):
    """text: whole lines that it printed after the offset that was asked for; offset: where to go on; progress: what it
    last said of that, as JSON, or nothing; attempt: which of its runs that is, from 1."""

    text: bytes = b""
    offset: int = 0
    progress: bytes = b""
    attempt: int = 0

"""A job that a job makes: what a context says of it, and what a worker far away does."""

from typing import NamedTuple


class NewJob(NamedTuple):
    """It has no tenant: whoever records it adds that of the job which made it. options reads like the query of a URL.
    links is for the daemon's use: neither a context nor a worker can say it."""

    type: str
    payload: bytes
    options: str = ""
    links: int = 0

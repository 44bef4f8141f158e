"""A job that a job makes: what a context says of it, and what a worker far away does."""

from typing import NamedTuple

from vocabulary.origin import Origin


class NewJob(NamedTuple):
    """It has no tenant: whoever records it adds that of the job which made it. options reads like the query of a URL.
    links and follows are for the daemon's use: neither a context nor a worker can say them."""

    type: str
    payload: bytes
    options: str = ""
    links: int = 0
    """How many results were passed on in a row to get here."""
    follows: Origin | None = None
    """The job whose result it gets."""

"""What is to be changed of a job that the store has."""

from typing import NamedTuple


class JobChange(NamedTuple):
    """For `update_job`; None leaves a thing as it is. With token only that delivery may do it, with at_rest nobody
    while the job runs."""

    data: bytes | None = None
    dt_ms: int | None = None
    token: int | None = None
    at_rest: bool = False

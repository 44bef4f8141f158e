"""Ends of jobs on the straight way that are on their way into the store.

Ensures, with the straight way: a job is not shown as running once its end may be in the store. An end of which nothing
is kept leaves no trace there, so the job would be added anew, and run again when its lease lapses.
"""

from collections.abc import Iterable


class EndsUnderWay:
    def __init__(self) -> None:
        self._troubles: dict[str, str] = {}
        """Why the store could not take an end so far, by id; empty when nothing has gone wrong."""

    def __contains__(self, job_id: str) -> bool:
        """Whether the store may have its end."""
        return job_id in self._troubles

    def begin(self, ids: Iterable[str]) -> None:
        for job_id in ids:
            self._troubles.setdefault(job_id, "")

    def failed(self, ids: Iterable[str], reason: str) -> None:
        """The store could not be reached, so nobody knows whether it has these ends: they stay under way until it has
        taken them."""
        self._troubles.update(dict.fromkeys(ids, reason))

    def over(self, ids: Iterable[str]) -> None:
        """They are recorded, or never will be."""
        for job_id in ids:
            self._troubles.pop(job_id, None)

    def leave_out(self, ids: Iterable[str]) -> Iterable[str]:
        """Those of which no end is under way."""
        return (job_id for job_id in ids if job_id not in self._troubles)

    def trouble(self, ids: Iterable[str]) -> str:
        """Why one of these could not be recorded so far; empty when nothing has gone wrong."""
        return next(filter(None, map(self._troubles.get, ids)), "")

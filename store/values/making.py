"""Runs that end with the jobs that they made."""

from collections.abc import Sequence
from typing import NamedTuple

from store.values.jobs import Creation, EndOfRun


class MakingEnd(NamedTuple):
    """The end of a run that asked for new jobs."""

    release: EndOfRun
    new_jobs: Sequence[Creation]

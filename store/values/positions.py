"""How far each journal was read, and which ids must stay when their jobs are deleted.

After a crash a daemon reads its journal again, from the position that the store has. A line whose job is there is known
by its id. So while the line of a job may be read again, the id stays when the job is deleted, and nothing else of it:
as with any id that is there, no verb adds the job again.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

ANY: Final = "*"
_MOST_SOURCES: Final = 16
_LAST: Final = "~"
"""Behind every id."""


class JournalPosition(NamedTuple):
    """How far a journal's reader has come: everything before this place is in the store.

    passed: no line with this id or a smaller one is read again. sources: lines with the others may have ids of these
    sysids, or of ANY; those of daemons that wrote to this journal, each with its own.
    """

    reader: str
    segment: str
    offset: int
    line: int
    passed: str = ""
    sources: tuple[str, ...] = ()


def with_sources(sources: Sequence[str], writers: Sequence[str]) -> tuple[str, ...]:
    """These, and more that wrote to the journal or will. Of a daemon that crashes again and again there are not more
    and more."""
    every = tuple(dict.fromkeys((*sources, *writers)))
    return every if len(every) <= _MOST_SOURCES else (ANY,)


def source_of(job_id: str) -> str:
    """The sysid in an id; empty if there is none."""
    parts = job_id.split("-")
    return parts[1] if len(parts) == 3 else ""


def passed_of(source: str, positions: Sequence[JournalPosition]) -> str:
    """No line with an id of this source is read again up to this id."""
    return min((it.passed for it in positions if source in it.sources or ANY in it.sources), default=_LAST)


def may_be_read_again(job_id: str, positions: Sequence[JournalPosition]) -> bool:
    return job_id > passed_of(source_of(job_id), positions)

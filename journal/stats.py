"""A glance at the journal, for health pages and metrics."""

from typing import NamedTuple


class JournalStats(NamedTuple):
    """Counts are since open."""

    segments: int
    backlog_bytes: int
    """Durable and not yet rsynced."""
    reservations: int
    lines_written: int
    lines_read: int
    damages: int
    trouble: str
    """Why lines cannot be written; empty when they can."""
    unreadable: str
    """Why lines that wait cannot be read; empty when they can."""
    writing_s: float
    """How long the write under way has taken so far; 0 when there is none."""

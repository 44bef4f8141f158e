"""The journal's settings, with defaults that suit one daemon on one disk."""

from dataclasses import dataclass
from typing import Final

from vocabulary.sizes import MIB

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalOptions:
    segment_bytes: int = 64 * MIB
    """A segment that would grow past this is closed and the next one begun."""
    segment_age_s: float = 3600.0
    """So is one that is older than this and holds lines."""

    max_payload_bytes: int = 1 * MIB
    max_batch_bytes: int = 16 * MIB
    """Of one write: its payloads as they come. Ids, types and base64 come on top as they are stored; that must stay
    below `BODY_LIMIT` of the format."""
    max_batch_lines: int = 100_000
    max_group_bytes: int = 16 * MIB
    """Of the writes that share one sync; a single larger write still goes alone."""

    max_backlog_bytes: int = 16 * GIB
    """Written and not yet read: intake is refused at this size."""
    min_free_bytes: int = 64 * MIB
    """Intake is refused below this, so that the store on the same disk keeps room to take lines in.
    0 lets the journal fill the disk."""

    read_bytes: int = 8 * MIB
    """A reservation holds no more than this, however many lines it asked for (but always one line)."""
    recent_bytes: int = 4 * MIB
    """As much of the newest lines stays in memory for a reader that keeps up."""
    sync_cursor: bool = True
    """Sync the read position at every `rsync`. Off when the store commits the position with the jobs."""

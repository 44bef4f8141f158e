"""The durable line journal: record format, segments, group commit, reservations, recovery. Imports only the vocabulary.

A line on its way, and the file that owns each step:

    write     journal.py   gives it an id (ids.py); payloads.py checks it, writes.py lays it out in a frame (format.py)
              commits.py   puts it with whatever else waits, so that all share one sync
              threads.py   the thread on which that is done
              writer.py    appends the group to the open segment (disk.py) and syncs; begins segments
              trouble.py   why it cannot, while it cannot
    reserve   ledger.py    decides which lines the reader gets, and until when
    read      recent.py    has the newest lines in memory
              lines.py     reads the others, over the frames (segment.py, format.py) of one segment after another
    rsync     backlog.py   removes read up segments, after the new position (cursor.py) is kept
    restart   recovery.py  cuts a torn end, sets damage aside, and says so
    copy      copying.py   a backup of it, by anyone, while it is in use
    look      inspect.py   what is in it, for people, without touching it; stats.py: how much, for machines
    below     disk.py      all file access, as one small interface; durable.py: folders and small files
    all       options.py   the settings; errors.py: what can go wrong
"""

from journal.commits import Settled, tell
from journal.cursor import Position
from journal.disk import Disk, File, OsDisk
from journal.errors import (
    BacklogFull,
    DiskFull,
    InvalidWrite,
    JournalClosed,
    JournalError,
    JournalLocked,
    JournalUnavailable,
    LimitExceeded,
    ReservationLapsed,
    ReservationUnread,
    UnsupportedFormat,
)
from journal.format import Record
from journal.ids import IdParts, LateTexts, parse_id
from journal.journal import Journal
from journal.ledger import Reservation
from journal.options import JournalOptions
from journal.payloads import Payloads, is_much
from journal.stats import JournalStats
from journal.writes import do_attributes_fit

__all__ = [
    "BacklogFull",
    "Disk",
    "DiskFull",
    "File",
    "IdParts",
    "InvalidWrite",
    "Journal",
    "JournalClosed",
    "JournalError",
    "JournalLocked",
    "JournalOptions",
    "JournalStats",
    "JournalUnavailable",
    "LateTexts",
    "LimitExceeded",
    "OsDisk",
    "Payloads",
    "Position",
    "Record",
    "Reservation",
    "ReservationLapsed",
    "ReservationUnread",
    "Settled",
    "UnsupportedFormat",
    "do_attributes_fit",
    "is_much",
    "parse_id",
    "tell",
]

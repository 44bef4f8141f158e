"""What can go wrong with the journal, as one tree with a stable `code` each.

JournalError
├── InvalidWrite            the caller's input cannot be written; nothing was
│   └── LimitExceeded       ... because it is larger than a limit that the message names
├── JournalUnavailable      an I/O error: nothing of this write is acknowledged, try again later
│   ├── DiskFull            ... because the disk has no room
│   └── BacklogFull         ... because the lines not read yet have reached their limit
├── JournalClosed           used before open or after close
├── JournalLocked           another process writes to this directory
├── ReservationLapsed       the reservation timed out or ended; its lines belong to the next reader
├── ReservationUnread       rsync of lines that were never read: they would be lost
└── UnsupportedFormat       the directory was written by a newer version
"""

from typing import ClassVar

from vocabulary.unavailable import Unavailable


class JournalError(Exception):
    code: ClassVar[str] = "journal_error"


class InvalidWrite(JournalError):
    code = "invalid_write"


class LimitExceeded(InvalidWrite):
    code = "limit_exceeded"

    def __init__(self, what: str, actual: int, limit_name: str, limit: int) -> None:
        super().__init__(f"{what} is {actual}, over the limit {limit_name}={limit}")
        self.limit_name = limit_name


class JournalUnavailable(JournalError, Unavailable):
    code = "journal_unavailable"


class DiskFull(JournalUnavailable):
    code = "disk_full"

    def __init__(self, message: str, *, has_room_for_less: bool = False) -> None:
        super().__init__(message)
        self.has_room_for_less = has_room_for_less
        """Only this write is too large for what is left: smaller ones are accepted."""


class BacklogFull(JournalUnavailable):
    code = "backlog_full"


class JournalClosed(JournalError):
    code = "journal_closed"


class JournalLocked(JournalError):
    code = "journal_locked"


class ReservationLapsed(JournalError):
    code = "reservation_lapsed"


class ReservationUnread(JournalError):
    code = "reservation_unread"


class UnsupportedFormat(JournalError):
    code = "unsupported_format"

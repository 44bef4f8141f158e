"""Why lines cannot be written, or read, at present. Logged when it begins and when it ends, and not in between."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from journal.errors import JournalError, JournalUnavailable

log = logging.getLogger("journal")


class Trouble:
    def __init__(self, begins: str = "journal.intake_stopped", ends: str = "journal.intake_resumed") -> None:
        """begins, ends: what is logged."""
        self._begins = begins
        self._ends = ends
        self.reason = ""
        """Empty when there is none."""

    def begin(self, error: JournalError) -> None:
        if not self.reason:
            self.reason = str(error)
            log.error(self._begins, extra={"code": error.code, "reason": self.reason})

    def end(self) -> None:
        if self.reason:
            self.reason = ""
            log.warning(self._ends)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """It begins with a JournalUnavailable of the block, and ends with a block that has none."""
        try:
            yield
        except JournalUnavailable as error:
            self.begin(error)
            raise
        self.end()

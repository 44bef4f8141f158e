"""Why lines cannot be written at present. Logged when it begins and when it ends, and not in between."""

import logging

from journal.errors import JournalError

log = logging.getLogger("journal")


class Trouble:
    def __init__(self) -> None:
        self.reason = ""
        """Empty when there is none."""

    def begin(self, error: JournalError) -> None:
        if not self.reason:
            self.reason = str(error)
            log.error("journal.intake_stopped", extra={"code": error.code, "reason": self.reason})

    def end(self) -> None:
        if self.reason:
            self.reason = ""
            log.warning("journal.intake_resumed")

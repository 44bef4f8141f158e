"""A log of the commands that a driver sends: one command is one round trip."""

from collections.abc import Mapping
from typing import Any

from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

_ABOUT_THE_CALL = {
    "lsid",
    "$db",
    "writeConcern",
    "$clusterTime",
    "txnNumber",
    "ordered",
    "$readPreference",
}


def without_session(command: Mapping[str, Any]) -> dict[str, Any]:
    """The query itself, without what the driver adds about the call."""
    return {key: value for key, value in command.items() if key not in _ABOUT_THE_CALL}


class CommandLog(CommandListener):
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    @property
    def names(self) -> list[str]:
        return [next(iter(command)) for command in self.sent]

    def started(self, event: CommandStartedEvent) -> None:
        self.sent.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass

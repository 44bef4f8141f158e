"""Tells the service manager how we are, in systemd's protocol: lines of `NAME=value` in a datagram to a unix socket.

Ensures: without a manager, or with one that does not listen, nothing happens and nothing is raised. The variables are
removed from the environment when they are read, so that no process that we start speaks in our name.
"""

import logging
import os
import socket
from collections.abc import MutableMapping
from typing import Final, Self

log = logging.getLogger("functory.notify")

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE: Final = "WATCHDOG_PID"
_STATUS_CHARS: Final = 200


class Notifier:
    """`watchdog_s` is the longest time between two calls of `alive` that the manager accepts; None when
    it does not watch."""

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self.address = address
        self.watchdog_s = watchdog_s
        self._status = ""
        self._has_failed = False

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] = os.environ) -> Self:
        """A notifier for the variables that the manager has set. An invalid value counts as none."""
        address = environ.pop(SOCKET_VARIABLE, "")
        interval_us = environ.pop(WATCHDOG_VARIABLE, "")
        watched_pid = environ.pop(WATCHDOG_PID_VARIABLE, "")
        is_ours = watched_pid in ("", str(os.getpid()))
        is_watched = is_ours and interval_us.isdecimal() and int(interval_us) > 0
        return cls(address, int(interval_us) / 1e6 if is_watched else None)

    def ready(self, status: str) -> None:
        self._send("READY=1", self._status_line(status))

    def stopping(self) -> None:
        self._send("STOPPING=1", self._status_line("stopping"))

    def status(self, text: str) -> None:
        """What `systemctl status` shows. Sent when it changes."""
        if text != self._status:
            self._send(self._status_line(text))

    def alive(self) -> None:
        """The watchdog's ping. Whoever calls this vouches that work makes progress."""
        self._send("WATCHDOG=1")

    def _status_line(self, text: str) -> str:
        self._status = text
        return "STATUS=" + " ".join(text.split())[:_STATUS_CHARS]

    def _send(self, *lines: str) -> None:
        if not self.address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), socket_name(self.address))
        except OSError as error:
            if not self._has_failed:
                log.warning("notify.failed", extra={"address": self.address, "reason": str(error)})
            self._has_failed = True
        else:
            self._has_failed = False


def socket_name(address: str) -> str:
    """The address as the kernel wants it: `@name` is an abstract socket, anything else a path."""
    return "\0" + address[1:] if address.startswith("@") else address

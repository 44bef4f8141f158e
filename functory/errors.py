"""What the application itself raises, as one tree with a stable `code` each.

FunctoryError
├── InvalidConfig       a setting is wrong; the message names it and its place
└── DaemonFailed        a part of the daemon ended although it must not; the daemon stops
"""

from typing import ClassVar


class FunctoryError(Exception):
    code: ClassVar[str] = "functory_error"


class InvalidConfig(FunctoryError):
    code = "invalid_config"


class DaemonFailed(FunctoryError):
    code = "daemon_failed"

"""What goes wrong in the runner, as one small tree; every class has a stable `code`.

RunnerError
├── LaunchError            a context could not be started
│   ├── IsolationError     the machine cannot give the isolation that was asked for
│   ├── ProgramError       the program of a context does not start, whoever's code it should run
│   └── ContextLostError   it ended for no fault of its own before it got going; another try may work
├── ProtocolError          a context sent what the protocol does not allow; that context is ended
│   └── OutputError        it printed so much that it was ended
├── ContextEndedError      a context ended, or was ended, while something was asked of it
├── RefusedError           a handler does not load: its own `before` or its top level failed
├── SecretMissingError     a handler names a secret that is not set
├── SecretsLockedError     a secret cannot be opened on this daemon: it lacks the key
├── PackagesRefusedError   the packages of a handler cannot be had: no such name, a conflict, no wheel, another hash
├── PackagesBusyError      the tenant has as many builds waiting as it may
├── PackagesMissingError   this daemon cannot get packages now: it has no installer, or no index answers
├── FilesMissingError      the files of a handler that is a folder cannot be had here
└── TargetRefusedError     an http handler points where it may not
"""

from typing import ClassVar


class RunnerError(Exception):
    """Base of everything that the runner raises on purpose."""

    code: ClassVar[str] = "runner"


class LaunchError(RunnerError):
    """A context could not be started; nothing of it is left behind."""

    code = "launch_failed"


class IsolationError(LaunchError):
    """The machine cannot give the isolation that was asked for; no tenant code has run."""

    code = "isolation_unavailable"


class ProgramError(LaunchError):
    """The program that a context should run cannot be started in the sandbox; the message says which and why."""

    code = "program_failed"


class ContextLostError(LaunchError):
    """A context, or the process that makes them, ended before the program got going; another try may work."""

    code = "context_lost"


class ProtocolError(RunnerError):
    """A context sent what the protocol does not allow. It costs that context, never the daemon."""

    code = "protocol"


class OutputError(ProtocolError):
    """The context printed so much that it was ended."""

    code = "too_much_output"


class ContextEndedError(RunnerError):
    """A context ended, or had to be ended, while something was asked of it; the message says how."""

    code = "context_ended"


class RefusedError(RunnerError):
    """A handler parses but does not load; the message is what its own code raised."""

    code = "handler_refused"


class SecretMissingError(RunnerError):
    """A handler names a secret that its tenant has not set, or has deleted."""

    code = "secret_missing"


class SecretsLockedError(RunnerError):
    """A secret cannot be opened or sealed on this daemon; the message says which key is missing."""

    code = "secrets_locked"


class PackagesRefusedError(RunnerError):
    """The packages that a handler asks for cannot be resolved or installed; the message says which and why. is_final:
    the same packages are refused the next time, too; not so for want of room, time or memory."""

    code = "packages_refused"

    def __init__(self, message: str, *, is_final: bool = True) -> None:
        super().__init__(message)
        self.is_final = is_final


class PackagesBusyError(RunnerError):
    """As many builds of the tenant wait as may; the same request will do later."""

    code = "packages_busy"


class PackagesMissingError(RunnerError):
    """This daemon does not have the packages and cannot get them now, through no fault of the handler."""

    code = "packages_unavailable"


class FilesMissingError(RunnerError):
    """The files of a handler that is a folder cannot be read from the store, or not be put on this machine's disk."""

    code = "files_missing"


class TargetRefusedError(RunnerError):
    """The address of an http handler is one that tenants may not reach."""

    code = "target_refused"

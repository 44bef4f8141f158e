"""What goes wrong in the runner, as one small tree; every class has a stable `code`.

RunnerError
└── LaunchError            a context could not be started
    ├── IsolationError     the machine cannot give the isolation that was asked for
    └── ContextLostError   it ended for no fault of its own before it got going; another try may work
"""


class RunnerError(Exception):
    """Base of everything that the runner raises on purpose."""

    code = "runner"


class LaunchError(RunnerError):
    """A context could not be started; nothing of it is left behind."""

    code = "launch_failed"


class IsolationError(LaunchError):
    """The machine cannot give the isolation that was asked for; no tenant code has run."""

    code = "isolation_unavailable"


class ContextLostError(LaunchError):
    """A context, or the process that makes them, ended before the program got going; another try may work."""

    code = "context_lost"

"""What goes wrong in the runner, as one small tree; every class has a stable `code`.

RunnerError
└── LaunchError            a context could not be started
    └── IsolationError     the machine cannot give the isolation that was asked for
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

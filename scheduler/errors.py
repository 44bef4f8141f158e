"""What can go wrong in the scheduler, as one tree with a stable `code` each.

SchedulerError
├── InvalidOptions       a setting of a policy, of a tenant or of a retry cannot be
├── UnknownPolicy        no policy has that name
├── NotRunning           a batch was stopped that never started: the caller lost count of its slots
├── NotStarted           an index was started out of order, or was done before it started
└── RepeatError          a repeat pattern
    ├── InvalidRepeat    ... is not in the repeat syntax
    ├── RepeatStuck      ... would run the job again at once, for ever
    └── RepeatOutOfRange ... leaves the calendar
"""

from typing import ClassVar


class SchedulerError(Exception):
    code: ClassVar[str] = "scheduler_error"


class InvalidOptions(SchedulerError):
    code = "invalid_scheduler_options"


class UnknownPolicy(SchedulerError):
    code = "unknown_policy"


class NotRunning(SchedulerError):
    code = "not_running"


class NotStarted(SchedulerError):
    code = "not_started"


class RepeatError(SchedulerError):
    code = "repeat_error"


class InvalidRepeat(RepeatError):
    code = "invalid_repeat"


class RepeatStuck(RepeatError):
    code = "repeat_stuck"


class RepeatOutOfRange(RepeatError):
    code = "repeat_out_of_range"

"""What people are told of the last run of a job in one line: its error, or that there was none because the job had
waited for too long."""

from typing import Final

from store.base import Code, JobRecord

WAITED_TOO_LONG: Final = "it had waited for too long, and was not run"


def run_message(record: JobRecord) -> str:
    outcome = record.outcome
    if outcome is None:
        return ""
    was_not_run = outcome.code is Code.ABANDONED and not (outcome.handler_version or record.result_bytes)
    return outcome.message or (WAITED_TOO_LONG if was_not_run else "")

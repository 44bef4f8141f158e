"""How results look in a terminal: what tenants' code produced is shown as inert text."""

import json

from functory.logs import format_time
from runner.outcome import Stopped


def inert(data: bytes) -> str:
    """Text with its line breaks, everything else that could move a cursor or hide escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def moment(time_ms: int | None) -> str:
    """A time for people, in UTC to the second; a dash for none."""
    return "-" if not time_ms else format_time(time_ms)[:19].replace("T", " ")


def print_stopped(stopped: Stopped, *, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "code": stopped.code,
                    "exitcode": stopped.exitcode,
                    "result": stopped.result.decode("utf-8", "replace"),
                    "log": stopped.log.decode("utf-8", "replace"),
                    "duration_ms": stopped.duration_ms,
                    "isolation": stopped.level.name,
                    "new_jobs": [
                        {"type": j.type, "payload": j.payload.decode("utf-8", "replace")} for j in stopped.new_jobs
                    ],
                }
            )
        )
        return
    print(f"{stopped.exitcode} {stopped.code} in {stopped.duration_ms:.1f} ms at isolation {stopped.level.name}")
    for title, data in (("result", stopped.result), ("log", stopped.log)):
        if data:
            print(f"{title}:\n" + "\n".join(f"  {line}" for line in inert(data).splitlines()))
    for job in stopped.new_jobs:
        print(f"new job: {job.type}|{inert(job.payload)}")

"""How results look in a terminal. The output of tenants' code is shown as inert text."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from vocabulary.time_text import MAX_TIME_MS, iso_time

if TYPE_CHECKING:
    from functory.wire.jobs import Why
    from runner.outcome import Stopped
    from vocabulary.new_job import NewJob


def inert(data: bytes) -> str:
    """Text with its line breaks; everything else that could move a cursor or hide is escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def moment(time_ms: int | None) -> str:
    """A time for people, in their zone, to the second, as the options that take a time read it; a dash for none."""
    if not time_ms:
        return "-"
    try:
        local = datetime.fromtimestamp(time_ms // 1000).astimezone()
        return local.strftime("%Y-%m-%d %H:%M:%S UTC") if local.tzname() == "UTC" else local.isoformat(" ")
    except (ValueError, OverflowError, OSError):  # as the zone has it, the year 10,000 may come before MAX_TIME_MS
        return "after the year 9999"


def reason(why: "Why") -> str:
    """Why a job is not running, with the time that it names in the reader's zone."""
    text = why.text
    for name in ("until_ms", "lease_until_ms", "since_ms"):
        at_ms = why.detail.get(name)
        if isinstance(at_ms, int) and at_ms <= MAX_TIME_MS:
            text = text.replace(iso_time(at_ms), moment(at_ms))
    return inert(text.encode())


def counted(count: int, thing: str) -> str:
    """Such as 1 job, 2 jobs."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def print_stopped(stopped: "Stopped", *, as_json: bool) -> None:
    if as_json:
        import json  # noqa: PLC0415 (this module is imported for every --help)

        print(
            json.dumps(
                {
                    "code": stopped.code,
                    "exitcode": stopped.exitcode,
                    "result": stopped.result.decode("utf-8", "replace"),
                    "log": stopped.noted_log.decode("utf-8", "replace"),
                    "duration_ms": stopped.duration_ms,
                    "isolation": stopped.isolation,
                    "new_jobs": [
                        {"type": j.type, "payload": j.payload.decode("utf-8", "replace"), "options": j.options}
                        for j in stopped.new_jobs
                    ],
                    "carried": None if stopped.carried is None else stopped.carried.decode("utf-8", "replace"),
                }
            )
        )
        return
    title = f"{stopped.exitcode} {stopped.code} in {stopped.duration_ms:.1f} ms at isolation {stopped.isolation}"
    print_run(title, stopped.result, stopped.noted_log, stopped.new_jobs, stopped.carried)


def print_run(title: str, result: bytes, log: bytes, new_jobs: Sequence["NewJob"], carried: bytes | None) -> None:
    """One run of a handler, outside the queue."""
    print(title)
    for name, data in (("result", result), ("log", log)):
        if data:
            print(f"{name}:\n" + indented(inert(data)))
    for line in left_behind(new_jobs, carried):
        print(line)


def left_behind(new_jobs: Sequence["NewJob"], carried: bytes | None) -> list[str]:
    """What a run would have made and carried on, in lines as a handler can print them."""
    made = [f"new job: {job.type}{'?' if job.options else ''}{job.options}|{inert(job.payload)}" for job in new_jobs]
    return made if carried is None else [*made, f"carries on: {inert(carried)}"]

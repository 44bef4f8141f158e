"""Jobs in a terminal: one with all that is known of it, many as a table. The output of tenants' code is inert text."""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET

from functory.cli.answers import indented, inert, moment
from functory.cli.remote import print_json, show, show_table
from functory.cli.table import paint, render_table
from functory.wire.base import from_wire
from functory.wire.job_limits import attempts_text, limits_text
from functory.wire.jobs import Job, Page
from functory.wire.progress_text import progress_text
from functory.wire.schedules import NextTimes
from vocabulary.job_limits import RANGES
from vocabulary.states import state_word

_CHARS: Final = 60


MOST_CHARS: Final = 100
"""Of a payload in a table, on a wide terminal."""
_LEAST_CHARS: Final = 20


def show_page(arguments: argparse.Namespace, page: Page, empty: str) -> int:
    """With the beginnings of the payloads, where the terminal has room for them."""
    rows = [_row(job) for job in page.jobs]
    room = _room(render_table(_HEADERS, rows, coloured=False)) if rows else 0
    with_payloads = [(*row, _payload(job, room)) for row, job in zip(rows, page.jobs, strict=True)]
    return _show(arguments, page, [*_HEADERS, "payload"], with_payloads, empty)


def _room(table: str) -> int:
    """For one more column: what a terminal is wider than the table."""
    if not sys.stdout.isatty():
        return _CHARS
    width = max(len(line) for line in table.splitlines())
    return min(max(shutil.get_terminal_size().columns - width - 2, _LEAST_CHARS), MOST_CHARS)


def _payload(job: Job, room: int) -> str:
    """Its beginning, and a sign that there is more."""
    if job.payload is None:
        return ""
    data = from_wire(job.payload, job.payload_encoding)
    text = inert(data).strip().replace("\n", " ")
    is_whole = len(text) <= room and len(data) == job.payload_bytes
    return text if is_whole else text[: room - 1] + "…"


def show_children(arguments: argparse.Namespace, page: Page) -> int:
    rows = [
        (job.id, job.type, shown_state(job), job.code or "-", job.exitcode or "-", _result(job)) for job in page.jobs
    ]
    return _show(arguments, page, ["id", "type", "state", "code", "exit", "result"], rows, "No children.")


def shown_state(job: Job) -> str:
    """The word of lists, tables and pages."""
    return state_word(job.state, is_on_hold=job.pause is not None and not job.pending_children)


def _next(job: Job) -> str:
    """When a schedule runs next, or where it is now; and whether it is paused after that."""
    at = moment(job.due_ms) if job.state == "deferred" else shown_state(job)
    return at if job.pause is None or at == "paused" else f"{at}, then paused"


def show_schedules(arguments: argparse.Namespace, page: Page) -> int:
    rows = [
        (
            job.id,
            job.type,
            _short(job.unique.encode()) or "-",
            _short(job.repeat.encode()) or "last round",
            _next(job),
            moment(job.done_ms),
            "".join(_LETTERS.get(ended.code, "?") for ended in job.rounds) or "-",
            job.code or "-",
        )
        for job in page.jobs
    ]
    headers = ["id", "type", "name", "repeats", "next", "last", "rounds", "code"]
    example = "functory job add TYPE PAYLOAD --unique NAME --repeat '0 9 * * MON-FRI Europe/Berlin'"
    empty = f"Nothing repeats. This makes a schedule: {example}"
    status = _show(arguments, page, headers, rows, empty)
    if not arguments.json and any(job.rounds for job in page.jobs):
        print("Rounds, the last one last: . ok, F failed, A abandoned, C cancelled", file=sys.stderr)
    return status


def _show(
    arguments: argparse.Namespace, page: Page, headers: Sequence[str], rows: Sequence[tuple[object, ...]], empty: str
) -> int:
    status = show_table(arguments, page, headers, rows, empty)
    if page.cursor and not arguments.json:
        print(f"More: --cursor {page.cursor}", file=sys.stderr)
    return status


def results_table(jobs: Mapping[str, Job | None], gone: str) -> str:
    """Jobs that were waited for, each with the beginning of its result. gone: the state of those that are None."""
    rows = [
        (job_id, gone, "-", "-", "-", "")
        if job is None
        else (job_id, shown_state(job), job.code or "-", job.exitcode or "-", job.attempts, _result(job))
        for job_id, job in jobs.items()
    ]
    return render_table(["id", "state", "code", "exit", "attempts", "result"], rows)


def print_log(text: bytes) -> None:
    """What a handler printed, in a form that no terminal takes for orders."""
    sys.stdout.write(inert(text))
    sys.stdout.flush()


def show_progress(progress: object) -> str:
    return _short(progress_text(progress).encode("utf-8", "replace"))


def show_job(job: Job, *, as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    _show_facts(job)
    last = _last(job)
    if job.history:
        title = "earlier attempts" if job.state == "archived" else "attempts so far"
        print(f"{title}:\n" + indented(_attempts(job)))
    if job.rounds:
        print("rounds, newest first:\n" + indented(_rounds(job)))
    for name, text, encoding in (
        ("payload", job.payload, job.payload_encoding),
        (f"{last}result", job.result, job.result_encoding),
        (f"{last}log", job.log, job.log_encoding),
    ):
        if text:
            print(f"{name}:\n" + indented(inert(from_wire(text, encoding))))
    if job.message and not job.result:
        print(f"{last}message:\n" + indented(inert(job.message.encode("utf-8", "replace"))))


def show_change(job: Job, *, as_json: bool) -> None:
    """A job that was cancelled, say: what holds now, and not what it has said and returned before."""
    if as_json:
        print_json(job)
        return
    _show_facts(job)
    if job.payload:
        print("payload:\n" + indented(inert(from_wire(job.payload, job.payload_encoding))))


def _last(job: Job) -> str:
    """Before what is known of an attempt or a round that is over, when the job is not."""
    return "" if job.state == "archived" else "last "


def _show_facts(job: Job) -> None:
    last = _last(job)
    facts = {
        "id": job.id,
        "type": job.type,
        "state": paint(shown_state(job)),
        f"{last}code": f"{job.exitcode} {paint(job.code)}" if job.code else None,
        "progress": None if job.progress is None else show_progress(job.progress),
        "worker": inert(job.worker.encode()) or None,
        "attempts": attempts_text(job.attempts, job.max_attempts),
        "created": moment(job.created_ms),
        "due": moment(job.due_ms),
        "running": f"since {moment(job.claimed_ms)}" if job.claimed_ms else None,
        f"{last}started": moment(job.started_ms) if job.started_ms else None,
        f"{last}ended": moment(job.done_ms) if job.done_ms else None,
        f"{last}took": f"{job.duration_us / 1000:.1f} ms" if job.duration_us is not None and job.started_ms else None,
        "handler": f"version {job.handler_version}" if job.handler_version else None,
        "isolation": job.isolation or None,
        "parent": job.parent or None,
        "follows": f"{job.follows.id}, {job.follows.type}, {paint(job.follows.code)}" if job.follows else None,
        "children": f"{job.children}, {job.pending_children} not ended" if job.children else None,
        "repeat": inert(job.repeat.encode()) or None,
        "paused": f"since {moment(job.pause.since_ms)} by {job.pause.by}" if job.pause else None,
        "next regular": moment(job.regular_ms) if job.regular_ms else None,
        "unique": inert(job.unique.encode()) or None,
        "domain": inert(job.domain.encode()) or None,
        "key": inert(job.key.encode()) or None,
        "own limits": limits_text(_own_limits(job)) or None,
    }
    for name, value in facts.items():
        if value is not None:
            print(f"{name:12} {value}")


def _own_limits(job: Job) -> dict[str, int]:
    return {name: value for name in RANGES if (value := getattr(job, name)) is not UNSET}


_HEADERS: Final = ["id", "type", "state", "code", "exit", "attempts", "ms", "ended", "message"]


def _row(job: Job) -> tuple[object, ...]:
    return (
        job.id,
        job.type,
        shown_state(job),
        job.code or "-",
        job.exitcode or "-",
        job.attempts,
        round((job.duration_us or 0) / 1000, 1) if job.started_ms else "-",
        moment(job.done_ms),
        _short(job.message.encode()),
    )


def _attempts(job: Job) -> str:
    headers = ["attempt", "started", "code", "exit", "ms", "version", "daemon", "message"]
    rows = [
        (
            one.number,
            moment(one.started_ms),
            one.code,
            one.exitcode,
            round(one.duration_us / 1000, 1),
            one.handler_version or "-",
            one.daemon,
            _short(one.message.encode()),
        )
        for one in job.history
    ]
    return render_table(headers, rows)


_LETTERS: Final = {"ok": ".", "failed": "F", "abandoned": "A", "cancelled": "C"}
"""Of the last rounds of a schedule, oldest first."""


def _rounds(job: Job) -> str:
    headers = ["planned", "started", "code", "exit", "attempts", "ms", "version", "daemon", "message"]
    rows = [
        (
            moment(ended.planned_ms),
            moment(ended.started_ms),
            paint(ended.code),
            ended.exitcode,
            ended.attempts,
            round(ended.duration_us / 1000, 1),
            ended.handler_version or "-",
            ended.daemon or "-",
            _short(ended.message.encode()),
        )
        for ended in reversed(job.rounds)
    ]
    return render_table(headers, rows)


def show_times(arguments: argparse.Namespace, times: NextTimes) -> int:
    return show(arguments, times, "\n".join(moment(time_ms) for time_ms in times.times_ms))


def _result(job: Job) -> str:
    if job.code in {"failed", "error", "abandoned"} and job.message:
        return _short(job.message.encode())
    return _short(from_wire(job.result or "", job.result_encoding))


def _short(data: bytes) -> str:
    text = inert(data).strip().replace("\n", " ")
    return text if len(text) <= _CHARS else text[: _CHARS - 1] + "…"

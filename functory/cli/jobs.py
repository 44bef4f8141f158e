"""`functory job add | get | wait | cancel | retry | why` and `functory results`."""

import argparse
import asyncio
import sys

from functory.cli.answers import inert, moment
from functory.cli.commands import Commands
from functory.cli.progress import Progress
from functory.cli.remote import add_remote, print_json
from functory.cli.table import render_table
from functory.client import Client
from functory.wire.base import from_wire
from functory.wire.jobs import Job

_LINES_A_REQUEST = 1000
_LONGEST_WAIT_S = 30.0


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("job", help="add jobs and look after them")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    add = actions.add_parser("add", help="one job for each payload, or for each line of standard input")
    add.add_argument("type")
    add.add_argument("payload", nargs="*", help="none: the lines of standard input")
    add.add_argument("--delay-s", type=float, help="run it so many seconds from now")
    add.add_argument("--priority", choices=["0", "500", "1000"])
    add.add_argument("--wait", action="store_true", help="wait until all have ended, and show how")
    add_remote(add, run_add)

    for name, run, text in (
        ("get", run_get, "show a job"),
        ("wait", run_wait, "wait until a job has ended, and show it; exits 1 unless it ended ok"),
        ("cancel", run_cancel, "cancel a job that has not started"),
        ("retry", run_retry, "queue an ended job again"),
        ("why", run_why, "say why a job is not running"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("id")
        add_remote(action, run)

    results = commands.add_parser("results", help="list jobs, newest first")
    results.add_argument("--type")
    results.add_argument("--state", default="archived", help="archived (default), waiting, deferred, running, ...")
    results.add_argument("--code", help="ok, failed, abandoned, cancelled; several by commas")
    results.add_argument("--limit", type=int, default=20)
    add_remote(results, run_results)


async def run_add(client: Client, arguments: argparse.Namespace) -> int:
    lines = arguments.payload or await asyncio.to_thread(_lines_of_input)
    options = {"delay_s": arguments.delay_s, "priority": arguments.priority}
    ids: list[str] = []
    with Progress("added", len(lines)) as progress:
        for start in range(0, len(lines), _LINES_A_REQUEST):
            added = await client.add_jobs(arguments.type, lines[start : start + _LINES_A_REQUEST], **options)
            ids += added.ids or []
            progress.at(len(ids))
    if not arguments.wait:
        print_json({"count": len(ids), "ids": ids}) if arguments.json else print("\n".join(ids))
        return 0
    return await _wait_for_all(client, ids, as_json=arguments.json)


def _lines_of_input() -> list[str]:
    """As in the body of a request: blank lines are ignored, and a line that starts with # is a comment."""
    return [line for line in sys.stdin.read().split("\n") if line.strip() and not line.startswith("#")]


async def _wait_for_all(client: Client, ids: list[str], *, as_json: bool) -> int:
    jobs = []
    with Progress("ended", len(ids)) as progress:
        for done, job_id in enumerate(ids, start=1):
            jobs.append(await _ended(client, job_id))
            progress.at(done)
    if as_json:
        print_json(jobs)
    else:
        print(_table(jobs))
    return 0 if all(job.code == "ok" for job in jobs) else 1


async def run_get(client: Client, arguments: argparse.Namespace) -> int:
    _show(await client.get_job(arguments.id), as_json=arguments.json)
    return 0


async def run_wait(client: Client, arguments: argparse.Namespace) -> int:
    job = await _ended(client, arguments.id)
    _show(job, as_json=arguments.json)
    return 0 if job.code == "ok" else 1


async def run_cancel(client: Client, arguments: argparse.Namespace) -> int:
    await client.cancel_job(arguments.id)
    return await run_get(client, arguments)


async def run_retry(client: Client, arguments: argparse.Namespace) -> int:
    await client.retry_job(arguments.id)
    return await run_get(client, arguments)


async def run_why(client: Client, arguments: argparse.Namespace) -> int:
    answer = await client.why(arguments.id)
    print_json(answer) if arguments.json else print(f"{answer.state} ({answer.reason}): {answer.text}")
    return 0


async def run_results(client: Client, arguments: argparse.Namespace) -> int:
    page = await client.results(type=arguments.type, state=arguments.state, code=arguments.code, limit=arguments.limit)
    print_json(page) if arguments.json else print(_table(page.jobs))
    return 0


async def _ended(client: Client, job_id: str) -> Job:
    while True:
        job = await client.get_job(job_id, wait_s=_LONGEST_WAIT_S)
        if job.state == "archived":
            return job


def _table(jobs: list[Job]) -> str:
    headers = ["id", "type", "state", "code", "exit", "tries", "ms", "ended", "message"]
    rows = [
        (
            job.id,
            job.type,
            job.state,
            job.code or "-",
            job.exitcode or "-",
            job.attempts,
            round((job.duration_us or 0) / 1000, 1),
            moment(job.done_ms),
            inert(job.message.encode())[:60],
        )
        for job in jobs
    ]
    return render_table(headers, rows)


def _show(job: Job, *, as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    facts = {
        "id": job.id,
        "type": job.type,
        "state": job.state,
        "code": f"{job.exitcode} {job.code}" if job.code else None,
        "attempts": job.attempts,
        "created": moment(job.created_ms),
        "due": moment(job.due_ms),
        "started": moment(job.started_ms) if job.started_ms else None,
        "ended": moment(job.done_ms) if job.done_ms else None,
        "took": f"{job.duration_us / 1000:.1f} ms" if job.duration_us is not None else None,
        "isolation": job.isolation or None,
    }
    for name, value in facts.items():
        if value is not None:
            print(f"{name:10} {value}")
    for name, text, encoding in (
        ("payload", job.payload, job.payload_encoding),
        ("result", job.result, job.result_encoding),
        ("log", job.log, job.log_encoding),
    ):
        if text:
            print(f"{name}:\n" + "\n".join(f"  {line}" for line in inert(from_wire(text, encoding)).splitlines()))

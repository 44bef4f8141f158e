"""`functory work ...`: take jobs, report them and give them back by hand or from a script (docs/workers.md)."""

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from functory.cli.answers import inert, moment
from functory.cli.arguments import given
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functory.client import Client
    from functory.wire.workers import TakenChild, VerdictRow

_OUTCOMES: Final = ("ok", "failed", "retry", "error")


def add_commands(commands: Commands) -> None:
    work = commands.add_parser("work", help="take jobs of types that workers serve, and report them")
    actions = work.add_subparsers(title="commands", required=True, metavar="COMMAND")
    take = actions.add_parser("take", help="take jobs; each is a line with its lease, type and payload")
    take.add_argument("types", nargs="+", metavar="TYPE", help="a type, or a pattern such as 'resize*'")
    take.add_argument("--limit", type=int, help="at most so many (default: 1)")
    take.add_argument("--wait-s", type=float, metavar="SECONDS", help="wait for the first, up to 60 (default: 0)")
    take.add_argument("--lease-s", type=float, metavar="SECONDS", help="until a renewal is due (default: the type's)")
    take.add_argument("--name", help="of the worker, as the list shows it")
    add_remote(take, run_take)
    renew = actions.add_parser("renew", help="keep jobs for longer")
    _add_leases(renew, "+")
    renew.add_argument("--lease-s", type=float, metavar="SECONDS", help="from now on (default: as they were taken)")
    add_remote(renew, run_renew)
    report = actions.add_parser("report", help="say how a job ended, or what it does")
    _add_leases(report, None)
    report.add_argument("outcome", nargs="?", choices=_OUTCOMES, help="left out: it goes on")
    report.add_argument("--result", help="the result, or the text of the error")
    report.add_argument("--delay-s", type=float, metavar="SECONDS", help="until the next attempt")
    report.add_argument("--log", help="lines for its log")
    report.add_argument("--progress", help="how far it has come: a number is a percentage")
    add_remote(report, run_report)
    move = actions.add_parser("move", help="have a job go on as one of another type")
    _add_leases(move, None)
    move.add_argument("type", help="the type that it has from now on")
    move.add_argument("--delay-s", type=float, metavar="SECONDS", help="until it is due there")
    move.add_argument("--payload", help="instead of its own")
    add_remote(move, run_move)
    back = actions.add_parser("return", help="give jobs back that were not begun")
    _add_leases(back, "*")
    back.add_argument("--goodbye", metavar="NAME", help="all that the worker of this name holds")
    add_remote(back, run_return)
    drain = actions.add_parser("drain", help="have a worker take no more jobs for an hour")
    drain.add_argument("name", help="as `work list` shows it")
    drain.add_argument("--undo", action="store_true", help="let it take jobs again")
    add_remote(drain, run_drain)
    add_remote(
        actions.add_parser("list", help="workers that asked for jobs in the last hour and have not left"), run_list
    )


def _add_leases(parser: argparse.ArgumentParser, count: str | None) -> None:
    parser.add_argument("leases", nargs=count, type=lease, metavar="LEASE", help="ID:TOKEN, as `work take` prints it")


def lease(text: str) -> tuple[str, int]:
    """`ID:TOKEN`"""
    job_id, mark, token = text.rpartition(":")
    if not mark or not job_id or not token.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not ID:TOKEN")
    return job_id, int(token)


async def run_take(client: "Client", arguments: argparse.Namespace) -> int:
    request = given(limit=arguments.limit, wait_s=arguments.wait_s, lease_s=arguments.lease_s)
    if arguments.name:
        request["worker"] = {"name": arguments.name}
    taken = await client.take_jobs(*arguments.types, **request)
    headers = ["lease", "type", "attempt", "payload"]
    rows = [[f"{job.id}:{job.token}", job.type, job.attempts, _in_a_line(job.payload)] for job in taken.jobs]
    if any(job.children for job in taken.jobs):
        headers.insert(3, "children")
        for row, job in zip(rows, taken.jobs, strict=True):
            row.insert(3, _children(job.children))
    if any(job.follows for job in taken.jobs):
        headers.insert(3, "follows")
        for row, job in zip(rows, taken.jobs, strict=True):
            row.insert(3, f"{job.follows.id} {job.follows.code}" if job.follows else "")
    show_table(arguments, taken, headers, rows, "No jobs.")
    return 0 if rows else 1


async def run_renew(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.renew_jobs(arguments.leases, lease_s=arguments.lease_s)
    return _show(arguments, answer, answer.verdicts)


async def run_report(client: "Client", arguments: argparse.Namespace) -> int:
    job_id, token = arguments.leases
    item: dict[str, Any] = given(
        outcome=arguments.outcome, result=arguments.result, delay_s=arguments.delay_s, log=arguments.log
    )
    if arguments.progress is not None:
        item["progress"] = _number(arguments.progress)
    answer = await client.report_jobs([{"id": job_id, "token": token, **item}])
    return _show(arguments, answer, answer.verdicts)


async def run_move(client: "Client", arguments: argparse.Namespace) -> int:
    request = given(delay_s=arguments.delay_s, payload=arguments.payload)
    await client.move_job(arguments.leases, arguments.type, **request)
    return show(arguments, {"ok": True}, f"{arguments.leases[0]} is a job of type {arguments.type} now.")


async def run_return(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.return_jobs(arguments.leases, goodbye=arguments.goodbye or "")
    return _show(arguments, answer, answer.verdicts)


async def run_drain(client: "Client", arguments: argparse.Namespace) -> int:
    await client.drain_worker(arguments.name, drained=not arguments.undo)
    told = "gets jobs again." if arguments.undo else "gets no more jobs, and keeps those that it has."
    return show(arguments, {"ok": True}, f"Worker {inert(arguments.name.encode())} {told}")


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    listed = await client.list_workers()
    rows = [
        (
            f"{it.name or '-'}{' (draining)' if it.is_draining else ''}",
            it.host,
            it.version,
            " ".join(it.types),
            f"{it.running}/{it.capacity}",
            f"{it.per_minute:.0f}",
            moment(it.asked_ms),
        )
        for it in listed.workers
    ]
    headers = ("name", "host", "version", "types", "running", "a minute", "last asked")
    return show_table(
        arguments,
        listed,
        headers,
        rows,
        "No workers: none has asked for jobs in the last hour, or all that did have left.",
    )


def _show(arguments: argparse.Namespace, answer: object, verdicts: "list[VerdictRow]") -> int:
    """Exit code 5 if an item was late or unknown: whoever holds it should stop."""
    lines = [f"{it.id}  {it.answer}{' ' + it.code if it.code else ''}{_reason(it.message)}" for it in verdicts]
    show(arguments, answer, "\n".join(lines) or "Nothing to give back.")
    refused = [it for it in verdicts if it.status >= 400]
    if refused and arguments.json:
        print(f"functory: {len(refused)} refused", file=sys.stderr)
    return 5 if refused else 0


def _children(children: "Sequence[TakenChild]") -> str:
    """How they ended: `2 ok, 1 failed`."""
    counts = Counter(child.code or child.state for child in children)
    return ", ".join(f"{count} {code}" for code, count in sorted(counts.items())) or "-"


def _in_a_line(text: str) -> str:
    return inert(text.encode()).replace("\n", "\\n")


def _reason(message: str) -> str:
    return f": {inert(message.encode())}" if message else ""


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text

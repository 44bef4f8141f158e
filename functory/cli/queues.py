"""`functory replay | cancel | delete | failures | timeline | type ...`: many jobs at once."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from functory.cli.answers import inert, moment
from functory.cli.arguments import given, moment_ms, some_of
from functory.cli.commands import Commands
from functory.cli.confirmation import add_yes
from functory.cli.jobs import CODES, HELD
from functory.cli.many_jobs import UNFINISHED, ask, find_all, most_to_change, show_bulk, stop_at, until_none_match
from functory.cli.remote import add_remote, show, show_table

if TYPE_CHECKING:
    from functory.client import Client
    from functory.wire.jobs import Changed, Replayed


def add_commands(commands: Commands) -> None:
    _add_replay(commands)
    _add_cancel(commands)
    _add_delete(commands)
    failures = commands.add_parser("failures", help="failed runs, grouped by their error")
    failures.add_argument("--type", help="only this type, or those that a pattern such as 'mail*' matches")
    failures.add_argument("--since", type=moment_ms, metavar="TIME", help="such as 2h (ago) or 2026-11-14T23:59:59Z")
    failures.add_argument("--limit", type=int, default=20, help="default: 20")
    add_remote(failures, run_failures)
    timeline = commands.add_parser("timeline", help="how many jobs ended in each minute, hour or day")
    timeline.add_argument("--width", choices=["minute", "hour", "day"], default="hour", help="default: hour")
    timeline.add_argument("--type", help="only this type")
    timeline.add_argument("--count", type=int, default=24, help="default: 24")
    add_remote(timeline, run_timeline)
    _add_type(commands.add_parser("type", help="pause and resume types; progress of an indexed queue"))


def _add_replay(commands: Commands) -> None:
    replay = commands.add_parser("replay", help="run finished jobs again, chosen by a filter")
    replay.add_argument("--type", help="only this type, or those that a pattern such as 'mail*' matches")
    _add_named(replay, "whose last run ended with this error")
    _add_code(replay, "failed, abandoned")
    replay.add_argument(
        "--since", type=moment_ms, metavar="TIME", help="finished since: 2h (ago), 2026-11-14T23:59:59Z"
    )
    replay.add_argument("--until", type=moment_ms, metavar="TIME", help="finished before")
    replay.add_argument("--limit", type=int, help="run at most this many (default: 1000)")
    replay.add_argument("--rate-per-s", type=float, metavar="NUMBER", help="spread them over time")
    replay.add_argument("--dry-run", action="store_true", help="only count them")
    replay.add_argument("--schedules", action="store_true", help="also jobs that repeat: they go on with that")
    _add_all(replay)
    add_remote(replay, run_replay)


def _add_cancel(commands: Commands) -> None:
    cancel = commands.add_parser("cancel", help="cancel unfinished jobs, chosen by a filter")
    _add_pattern(cancel)
    _add_named(cancel, "that are tried again after this error")
    cancel.add_argument(
        "--state",
        action="extend",
        type=some_of(UNFINISHED, HELD),
        metavar="STATE,...",
        help=f"{', '.join(UNFINISHED)} (default: all of these); paused or held: by relatives or a consumer",
    )
    cancel.add_argument("--schedules", action="store_true", help="also jobs that repeat, which ends them")
    _add_bounds(cancel)
    add_yes(cancel)
    add_remote(cancel, run_cancel)


def _add_delete(commands: Commands) -> None:
    delete = commands.add_parser("delete", help="delete finished jobs, chosen by a filter")
    _add_pattern(delete)
    _add_named(delete, "whose last run ended with this error")
    _add_code(delete, "any")
    delete.add_argument("--since", type=moment_ms, metavar="TIME", help="ended since: 2h (ago), 2026-11-14T23:59:59Z")
    delete.add_argument("--until", type=moment_ms, metavar="TIME", help="ended before")
    _add_bounds(delete)
    add_yes(delete)
    add_remote(delete, run_delete)


def _add_pattern(parser: argparse.ArgumentParser) -> None:
    text = "a type, or a pattern such as 'mail*'; may be left out with --failure or --job-key"
    parser.add_argument("type", nargs="?", help=text)


def _add_named(parser: argparse.ArgumentParser, which: str) -> None:
    named = parser.add_mutually_exclusive_group()
    named.add_argument("--failure", metavar="ID", help=f"only jobs {which}: an id that `functory failures` shows")
    named.add_argument("--job-key", metavar="KEY", help="only jobs of this key")


def _add_code(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--code",
        action="extend",
        type=some_of(CODES),
        metavar="CODE,...",
        help=f"{', '.join(CODES)} (default: {default})",
    )


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, help="at most so many (default: 1000)")
    parser.add_argument("--dry-run", action="store_true", help="only count them")
    _add_all(parser)


def _add_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="go on until no more match; with --dry-run, count all of them"
    )


def _add_type(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, run, text in (
        ("pause", run_pause, "stop starting jobs of a type"),
        ("resume", run_resume, "start jobs of a type again"),
        ("index", run_index, "how far an indexed queue has come"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("type")
        add_remote(action, run)


async def run_replay(client: "Client", arguments: argparse.Namespace) -> int:
    request = given(
        type=arguments.type,
        failure=arguments.failure,
        key=arguments.job_key,
        codes=arguments.code,
        since_ms=arguments.since,
        until_ms=arguments.until,
        limit=arguments.limit,
        rate_per_s=arguments.rate_per_s,
        dry_run=arguments.dry_run,
        schedules=arguments.schedules,
    )

    async def next_ones() -> "Replayed":
        """Each call at the rate where the one before stopped."""
        answer = await client.replay(**request)
        stop_at(answer, request, "until_ms")
        if arguments.rate_per_s is not None and answer.last_due_ms is not None:
            request["after_ms"] = answer.last_due_ms
        if answer.cursor is not None:
            request["cursor"] = answer.cursor
        return answer

    replayed = await until_none_match(arguments, next_ones, "replayed")
    await find_all(client, arguments, replayed, ["archived"], arguments.code or ["failed", "abandoned"])
    return show_bulk(arguments, replayed, replayed.replayed, "queued again")


async def run_cancel(client: "Client", arguments: argparse.Namespace) -> int:
    request = given(
        failure=arguments.failure,
        key=arguments.job_key,
        states=arguments.state,
        limit=arguments.limit,
        dry_run=arguments.dry_run,
        schedules=arguments.schedules,
    )
    states = arguments.state or UNFINISHED

    async def call(**more: Any) -> "Changed":
        answer = await client.cancel_jobs(arguments.type, **request | more)
        stop_at(answer, request, "created_until_ms")
        return answer

    asked = await ask(client, arguments, call, "Cancel", states)
    most = most_to_change(asked, arguments)
    changed = (
        asked if asked is not None and not asked.matched else await until_none_match(arguments, call, "changed", most)
    )
    await find_all(client, arguments, changed, states)
    return show_bulk(arguments, changed, changed.changed, "cancelled")


async def run_delete(client: "Client", arguments: argparse.Namespace) -> int:
    request = given(
        failure=arguments.failure,
        key=arguments.job_key,
        codes=arguments.code,
        since_ms=arguments.since,
        until_ms=arguments.until,
        limit=arguments.limit,
        dry_run=arguments.dry_run,
    )

    async def call(**more: Any) -> "Changed":
        answer = await client.delete_jobs(arguments.type, **request | more)
        stop_at(answer, request, "until_ms")
        return answer

    asked = await ask(client, arguments, call, "Delete", ["archived"], arguments.code)
    most = most_to_change(asked, arguments)
    changed = (
        asked if asked is not None and not asked.matched else await until_none_match(arguments, call, "changed", most)
    )
    await find_all(client, arguments, changed, ["archived"], arguments.code)
    return show_bulk(arguments, changed, changed.changed, "deleted")


async def run_failures(client: "Client", arguments: argparse.Namespace) -> int:
    filters = given(type=arguments.type, since_ms=arguments.since, limit=arguments.limit)
    answer = await client.failures(**filters)
    rows = [
        (
            row.fingerprint,
            row.type,
            row.runs,
            moment(row.first_ms),
            moment(row.last_ms),
            row.example_id,
            inert(row.message.encode()),
        )
        for row in answer.failures
    ]
    headers = ["failure", "type", "runs", "first", "last", "example", "message"]
    status = show_table(arguments, answer, headers, rows, "No failures.")
    listed = next((row for row in answer.failures if row.fingerprint != "other"), None)
    if listed is not None and not arguments.json:
        chosen = f"--type {listed.type} --failure {listed.fingerprint}"
        print(f"Its jobs: functory job list {chosen}\nRun them again: functory replay {chosen}", file=sys.stderr)
    return status


async def run_timeline(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.timeline(**given(width=arguments.width, count=arguments.count, type=arguments.type))
    names = ("ok", "retry", "failed", "error", "abandoned", "cancelled")
    rows = [(moment(row.start_ms), row.type, *(getattr(row, name) for name in names)) for row in answer.buckets]
    return show_table(arguments, answer, ["from", "type", *names], rows, "Nothing ended in this time.")


async def run_pause(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_adding import has_no_handler  # noqa: PLC0415 (not for the parser)

    await client.pause_type(arguments.type)
    if await has_no_handler(client, arguments.type):
        print(f"Type {arguments.type} has no handler: is its name right?", file=sys.stderr)
    return show(arguments, {"ok": True}, f"{arguments.type} is paused.")


async def run_resume(client: "Client", arguments: argparse.Namespace) -> int:
    await client.resume_type(arguments.type)
    return show(arguments, {"ok": True}, f"{arguments.type} is active again.")


async def run_index(client: "Client", arguments: argparse.Namespace) -> int:
    found = await client.index(arguments.type)
    blocked = f"; blocked by job number {found.blocked_by}" if found.blocked_by else ""
    return show(arguments, found, f"{found.processed:,} of {found.head:,} processed{blocked}")

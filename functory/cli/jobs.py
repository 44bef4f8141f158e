"""`functory job ...`, `functory results` and `functory export`: add jobs, look at them, change them."""

import argparse
import os
from typing import TYPE_CHECKING, Final

from functory.cli.answers import counted, reason
from functory.cli.arguments import moment_ms, positive, some_of
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show
from vocabulary.states import state_word

if TYPE_CHECKING:
    from functory.client import Client

STATES: Final = ("running", "lapsed", "waiting", "deferred", "paused", "archived")
HELD: Final = {"held": "paused"}
"""The state of jobs that wait for relatives or a consumer, as it is shown and as it is named."""
CODES: Final = ("ok", "failed", "abandoned", "cancelled")


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("job", help="add jobs and look after them")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_add(actions)
    _add_create(actions)
    for name, run, text in (
        ("get", run_get, "show a job: outcome, attempts, payload, result, log"),
        ("cancel", run_cancel, "cancel a job that is not over; stop it if it is running"),
        ("pause", run_pause, "pause a schedule: no round of it begins until it is resumed"),
        ("resume", run_resume, "resume a schedule that is paused"),
        ("why", run_why, "say why a job is not running"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("id")
        add_remote(action, run)
    result = actions.add_parser("result", help="print the result of a job, byte for byte")
    result.add_argument("id")
    add_remote(result, run_result, json=False)
    children = actions.add_parser("children", help="list the children of a job, each with the beginning of its result")
    children.add_argument("id")
    children.add_argument("--cursor", help="continue the list: the cursor that the last one ended with")
    add_remote(children, run_children)
    logs = actions.add_parser("logs", help="print the log of a job; -f goes on until it has ended")
    logs.add_argument("id")
    logs.add_argument("-f", "--follow", action="store_true", help="as it is printed; exits 1 unless the job ends ok")
    add_remote(logs, run_logs, json=False)
    wait = actions.add_parser(
        "wait", help="wait until jobs have ended, and show them; exits 1 unless all ended ok, 9 if some go on"
    )
    wait.add_argument("ids", nargs="+", metavar="id")
    _add_timeout(wait)
    add_remote(wait, run_wait)
    retry = actions.add_parser("retry", help="run an ended job again, or a deferred one now; a schedule once more")
    retry.add_argument("id")
    retry.add_argument("--delay-s", type=float, metavar="SECONDS", help="wait this many seconds first")
    retry.add_argument("--next-run", metavar="TIME", help="run it then, such as '2026-11-14 23:59:59' (UTC)")
    retry.add_argument("--payload", help="run it with this payload")
    retry.add_argument("--type", help="run it as a job of this type")
    add_remote(retry, run_retry)
    _add_update(actions)
    delete = actions.add_parser(
        "delete", aliases=["rm"], help="delete a job that is not running, with its children that never ran"
    )
    delete.add_argument("id")
    add_remote(delete, run_delete)
    _add_schedules(actions)
    _add_list(actions.add_parser("list", help="list jobs; `functory export` has them with their results"))
    _add_list(commands.add_parser("results", help="list jobs (the same as `functory job list`)"))
    _add_export(commands)


def _add_update(actions: Commands) -> None:
    update = actions.add_parser("update", help="change a job that has not started, or a schedule")
    update.add_argument("id")
    update.add_argument("payload", nargs="?", help="the new payload")
    update.add_argument("--priority", type=int, choices=[0, 500, 1000])
    update.add_argument("--repeat", metavar="PATTERN", help="of a schedule: its new pattern; '' ends it")
    update.add_argument("--delay-s", type=float, metavar="SECONDS", help="of a schedule: its next round is in so long")
    update.add_argument("--next-run", metavar="TIME", help="or then, such as '2026-11-14 23:59:59' (UTC)")
    add_remote(update, run_update)


def _add_add(actions: Commands) -> None:
    add = actions.add_parser("add", help="one job for each payload, or for each line of standard input")
    add.add_argument("type")
    add.add_argument("payload", nargs="*", help="none: the lines of standard input")
    add.add_argument("--file", action="append", metavar="FILE", help="one job with all of this file as its payload")
    add.add_argument("--delay-s", type=float, metavar="SECONDS", help="start after this many seconds")
    add.add_argument(
        "--dt",
        metavar="TIME",
        help="start no sooner than this, such as '2026-11-14 23:59:59' (UTC), RFC 3339 with offset, or milliseconds",
    )
    add.add_argument("--priority", choices=["0", "500", "1000"], help="default: 500")
    add.add_argument("--domain", help="the rate domain that limits it")
    add.add_argument(
        "--job-key", metavar="KEY", help="jobs of its type with this key share a cap, in order (--key is your API key)"
    )
    add.add_argument("--retry-after-s", type=float, metavar="SECONDS", help="a fixed lease")
    add.add_argument(
        "--repeat",
        help="when to run again, such as 'FINISHED, +1 HOUR', or as cron says it: '0 9 * * MON-FRI Europe/Berlin'",
    )
    _add_limits(add)
    add.add_argument("--indexed", action="store_true", help="give it the next number of its type")
    add.add_argument("--unique", metavar="NAME", help="only one live job has this name")
    add.add_argument("--parent", metavar="ID", help="make it a child of this job")
    add.add_argument("--options", metavar="JSON", help="an object that is returned with the job")
    add.add_argument("--ack", choices=["journal", "store"], help="what is waited for (default: journal)")
    add.add_argument("--idempotency-key", metavar="KEY", help="repeating the command with this key adds nothing")
    add.add_argument("--wait", action="store_true", help="wait until all have ended, and show their results")
    _add_timeout(add)
    add_remote(add, run_add)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Of the job itself, instead of those of its type."""
    for name, unit, told in (
        ("max-attempts", "NUMBER", "so many attempts, instead of those of its type"),
        ("retry-base-ms", "MS", "the longest delay after its first attempt"),
        ("retry-max-ms", "MS", "the longest delay after any of its attempts"),
        ("retry-window-s", "SECONDS", "try it again for so long after it was due"),
        ("max-wait-s", "SECONDS", "do not start it when it has waited for longer"),
    ):
        parser.add_argument(f"--{name}", type=int, metavar=unit, help=told)


def _add_create(actions: Commands) -> None:
    create = actions.add_parser("create", help="create jobs of several types, all or none, from JSON")
    create.add_argument(
        "file",
        nargs="?",
        default="-",
        help="a JSON array of jobs, or one job a line, each with its type and payload; - or none: standard input",
    )
    create.add_argument("--idempotency-key", metavar="KEY", help="repeating the command with this key adds nothing")
    add_remote(create, run_create)


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout-s",
        type=float,
        metavar="SECONDS",
        help="give up waiting after this time, with exit code 9 (default: never)",
    )


def _add_list(parser: argparse.ArgumentParser) -> None:
    _add_filters(parser)
    _add_paging(parser)
    add_remote(parser, run_results)


def _add_export(commands: Commands) -> None:
    export = commands.add_parser("export", help="print whole jobs as JSON, one a line: payload, result, log")
    _add_filters(export)
    export.add_argument("--limit", type=positive, help="so many, the newest first (default: all)")
    add_remote(export, run_export, json=False)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--type", help="only this type, or those that a GLOB pattern such as 'mail*' matches")
    parser.add_argument(
        "--state",
        action="extend",
        type=some_of(["all", *STATES], HELD),
        metavar="STATE,...",
        help=f"{', '.join(STATES)}, or all (default: archived); paused or held: by relatives or a consumer",
    )
    parser.add_argument(
        "--code", action="extend", type=some_of(CODES), metavar="CODE,...", help=f"of archived jobs: {', '.join(CODES)}"
    )
    parser.add_argument("--since", type=moment_ms, metavar="TIME", help="such as 2h (ago) or 2026-11-14T23:59:59Z")
    parser.add_argument("--until", type=moment_ms, metavar="TIME", help="before this time")
    named = parser.add_argument_group(
        "one of these", "without --state, --code and a time in all states, those that are not over first"
    )
    named.add_argument("--unique", metavar="NAME", help="the jobs of this unique name")
    named.add_argument("--job-key", metavar="KEY", help="the jobs of this key")
    named.add_argument(
        "--failure", metavar="ID", help="the jobs whose last run ended with this error: functory failures"
    )
    parser.add_argument(
        "--contains", metavar="TEXT", help="the jobs with this text in the payload's first KiB or in the last error"
    )


def _add_schedules(actions: Commands) -> None:
    schedules = actions.add_parser(
        "schedules", help="list jobs that repeat: when they run next, and how they last ended"
    )
    _add_paging(schedules)
    add_remote(schedules, run_schedules)
    times = actions.add_parser("next-times", help="show when a pattern would have a job run, without adding one")
    times.add_argument("repeat", metavar="PATTERN", help="such as '0 9 * * MON-FRI Europe/Berlin'")
    times.add_argument("--count", type=int, default=5, help="so many, at most 20 (default: 5)")
    add_remote(times, run_next_times)


def _add_paging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=20, help="default: 20")
    parser.add_argument("--cursor", help="continue the list: the cursor that the last one ended with")


async def run_add(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_adding import add_jobs  # noqa: PLC0415 (not for the parser)

    return await add_jobs(client, arguments)


async def run_create(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_adding import create_jobs  # noqa: PLC0415 (not for the parser)

    return await create_jobs(client, arguments)


async def run_get(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_views import show_job  # noqa: PLC0415 (not for the parser)

    show_job(await client.get_job(arguments.id), as_json=arguments.json)
    return 0


async def run_result(client: "Client", arguments: argparse.Namespace) -> int:
    import sys  # noqa: PLC0415

    sys.stdout.buffer.write(await client.get_result(arguments.id))
    return 0


async def run_logs(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_views import print_log  # noqa: PLC0415 (not for the parser)

    if not arguments.follow:
        print_log(await client.get_log(arguments.id))
        return 0
    code: str | None = None
    async for part in client.follow_job(arguments.id):
        if isinstance(part, str):
            print_log(part.encode())
        else:
            code = part.code
    if code is None:  # it was not told, because the stream ended before the job
        job = await client.get_job(arguments.id)
        code = job.code if job.state == "archived" else None
    return 0 if code == "ok" else 1


async def run_children(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_views import show_children  # noqa: PLC0415 (not for the parser)

    return show_children(arguments, await client.children(arguments.id, cursor=arguments.cursor))


async def run_schedules(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_views import show_schedules  # noqa: PLC0415 (not for the parser)

    return show_schedules(arguments, await client.schedules(cursor=arguments.cursor, limit=arguments.limit))


async def run_wait(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_waiting import show_ended, show_one_ended  # noqa: PLC0415 (not for the parser)

    if len(arguments.ids) > 1:
        return await show_ended(client, arguments.ids, arguments)
    return await show_one_ended(client, arguments.ids[0], arguments)


async def run_cancel(client: "Client", arguments: argparse.Namespace) -> int:
    await client.cancel_job(arguments.id)
    return await _show_change(client, arguments)


async def run_retry(client: "Client", arguments: argparse.Namespace) -> int:
    await client.retry_job(
        arguments.id,
        delay_s=arguments.delay_s,
        next_run=arguments.next_run,
        payload=None if arguments.payload is None else os.fsencode(arguments.payload),
        job_type=arguments.type,
    )
    return await _show_change(client, arguments)


async def run_update(client: "Client", arguments: argparse.Namespace) -> int:
    await client.update_job(
        arguments.id,
        None if arguments.payload is None else os.fsencode(arguments.payload),
        priority=arguments.priority,
        repeat=arguments.repeat,
        delay_s=arguments.delay_s,
        next_run=arguments.next_run,
    )
    return await _show_change(client, arguments)


async def run_pause(client: "Client", arguments: argparse.Namespace) -> int:
    await client.pause_job(arguments.id)
    return await _show_change(client, arguments)


async def run_resume(client: "Client", arguments: argparse.Namespace) -> int:
    await client.resume_job(arguments.id)
    return await _show_change(client, arguments)


async def _show_change(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_views import show_change  # noqa: PLC0415 (not for the parser)

    show_change(await client.get_job(arguments.id), as_json=arguments.json)
    return 0


async def run_next_times(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_views import show_times  # noqa: PLC0415 (not for the parser)

    return show_times(arguments, await client.next_times(arguments.repeat, count=arguments.count))


async def run_delete(client: "Client", arguments: argparse.Namespace) -> int:
    deleted = await client.delete_job(arguments.id)
    return show(arguments, {"deleted": deleted}, f"Deleted {counted(deleted, 'job')}.")


async def run_why(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.why(arguments.id)
    state = state_word(answer.state, is_on_hold=answer.reason == "schedule_paused")
    return show(arguments, answer, f"{state} ({answer.reason}): {reason(answer)}")


async def run_results(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_listing import list_jobs  # noqa: PLC0415 (not for the parser)

    return await list_jobs(client, arguments)


async def run_export(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_listing import export_jobs  # noqa: PLC0415 (not for the parser)

    return await export_jobs(client, arguments)

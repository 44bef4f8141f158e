"""`functory alert set | list | get | delete | mute | test`: what a tenant wants to be told of."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from functory.cli.answers import moment
from functory.cli.arguments import given, seconds
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show, show_table
from functory.errors import InvalidInput

if TYPE_CHECKING:
    from functory.client import Client

_EXAMPLES: Final = """\
examples:
  functory alert set mail-fails --type 'mail*' --notify tell --failures 10 --window 10m
  functory alert set mail-breaks --type mail --notify tell --failure-share 0.2 --at-least 50 --window 1h
  functory alert set slow --type resize --notify tell --waiting 5m
  functory alert set full --type resize --notify tell --backlog 10000
  functory alert set nightly --type report --notify tell --silent 26h
  functory alert set no-worker --type render --notify tell --no-worker 10m
  functory alert set nearly-full --notify tell --quota 0.8"""


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("alert", help="alert rules: be told when jobs fail, wait or stay away")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_set(actions)
    add_remote(actions.add_parser("list", help="the rules, and how each stands"), run_list)
    get = actions.add_parser("get", help="one rule")
    get.add_argument("name")
    add_remote(get, run_get)
    remove = actions.add_parser("delete", aliases=["rm"], help="delete a rule")
    remove.add_argument("name")
    add_remote(remove, run_delete)
    mute = actions.add_parser("mute", help="tell nothing of a rule for a while; what has changed is told afterwards")
    mute.add_argument("name")
    mute.add_argument("duration", type=seconds, help="such as 2h; 0s ends it")
    add_remote(mute, run_mute)
    test = actions.add_parser("test", help="send one notification now")
    test.add_argument("name")
    add_remote(test, run_test)


def _add_set(actions: Any) -> None:
    put = actions.add_parser(
        "set",
        help="make a rule, or change one",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    put.add_argument("name")
    put.add_argument(
        "--type", help="a type, or a GLOB pattern: then all that it matches count together; not for --quota"
    )
    put.add_argument("--notify", required=True, metavar="TYPE", help="the type of the jobs that tell of a change")
    when = put.add_argument_group("condition (one of these)").add_mutually_exclusive_group(required=True)
    when.add_argument("--failures", type=int, metavar="N", help="more than N failed runs within --window")
    when.add_argument("--failure-share", type=float, metavar="P", help="more than this share of the runs, such as 0.2")
    when.add_argument("--waiting", type=seconds, metavar="TIME", help="a job has waited for longer")
    when.add_argument("--backlog", type=int, metavar="N", help="more than N jobs wait")
    when.add_argument("--silent", type=seconds, metavar="TIME", help="no job has ended ok for so long")
    when.add_argument(
        "--no-worker", type=seconds, metavar="TIME", help="jobs wait, and nobody has served them for longer"
    )
    when.add_argument("--quota", type=float, metavar="P", help="more than this share of a quota is used, such as 0.8")
    put.add_argument("--window", type=seconds, metavar="TIME", help="for failures: within this time (default: 10m)")
    put.add_argument("--at-least", type=int, metavar="N", help="with --failure-share: not with fewer runs than this")
    put.add_argument("--for", dest="hold", type=seconds, metavar="TIME", help="fire when it has held for this time")
    put.add_argument("--calm", type=seconds, metavar="TIME", help="be over when it has not held for this time (60s)")
    add_remote(put, run_set)


async def run_set(client: "Client", arguments: argparse.Namespace) -> int:
    from functory.cli.job_adding import has_no_handler  # noqa: PLC0415 (not for the parser)

    settings = {"type": _watched(arguments), "notify": arguments.notify, **_condition(arguments)}
    settings |= {
        name: value for name, value in (("for_s", arguments.hold), ("calm_s", arguments.calm)) if value is not None
    }
    created = await client.set_alert(arguments.name, **settings)
    if await has_no_handler(client, arguments.notify):
        print(f"Type {arguments.notify} has no handler yet: notifications wait until it has one.", file=sys.stderr)
    return show(arguments, {"created": created}, f"{arguments.name} is {'set' if created else 'changed'}.")


def _watched(arguments: argparse.Namespace) -> str:
    """Raises InvalidInput."""
    if arguments.type is None and arguments.quota is None:
        raise InvalidInput("--type is needed: the type, or a pattern of types, that the rule watches.")
    return arguments.type or "*"


def _condition(arguments: argparse.Namespace) -> dict[str, object]:
    """Raises InvalidInput for options that belong to another condition."""
    is_about_failures = arguments.failures is not None or arguments.failure_share is not None
    if not is_about_failures and arguments.window is not None:
        raise InvalidInput("--window is for --failures and --failure-share.")
    if arguments.failure_share is None and arguments.at_least is not None:
        raise InvalidInput("--at-least is for --failure-share.")
    if is_about_failures:
        window_s = 600 if arguments.window is None else arguments.window
        more = given(more_than=arguments.failures, share_above=arguments.failure_share, at_least=arguments.at_least)
        return {"when": "failures", "window_s": window_s, **more}
    if arguments.waiting is not None:
        return {"when": "waiting", "longer_than_s": arguments.waiting}
    if arguments.backlog is not None:
        return {"when": "backlog", "more_than": arguments.backlog}
    if arguments.silent is not None:
        return {"when": "silent", "window_s": arguments.silent}
    if arguments.quota is not None:
        return {"when": "quota", "share_above": arguments.quota}
    return {"when": "no_worker", "longer_than_s": arguments.no_worker}


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.list_alerts()
    rows = [
        (
            it.name,
            it.state + ("" if it.muted_until_ms is None else " (muted)"),
            moment(it.since_ms),
            it.type,
            it.condition,
            it.notify,
            it.trouble or "-",
        )
        for it in answer.alerts
    ]
    headers = ["name", "state", "since", "type", "condition", "notify", "trouble"]
    return show_table(arguments, answer, headers, rows, "No alerts.")


async def run_get(client: "Client", arguments: argparse.Namespace) -> int:
    it = await client.get_alert(arguments.name)
    lines = [
        f"{it.name}: {it.state} since {moment(it.since_ms)}",
        f"{it.type}: {it.condition}; notifies {it.notify}",
        f"fires after {it.for_s} s, is over after {it.calm_s} s",
    ]
    lines += [f"last fired {moment(it.fired_ms)}"] if it.fired_ms else []
    lines += [f"muted until {moment(it.muted_until_ms)}"] if it.muted_until_ms else []
    lines += [f"a notification waits: {it.trouble}"] if it.trouble else []
    return show(arguments, it, "\n".join(lines))


async def run_delete(client: "Client", arguments: argparse.Namespace) -> int:
    await client.delete_alert(arguments.name)
    return show(arguments, {"ok": True}, f"{arguments.name} is deleted.")


async def run_mute(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.mute_alert(arguments.name, arguments.duration)
    text = "is not muted any more" if answer.until_ms is None else f"is muted until {moment(answer.until_ms)}"
    return show(arguments, answer, f"{arguments.name} {text}.")


async def run_test(client: "Client", arguments: argparse.Namespace) -> int:
    job_id = await client.test_alert(arguments.name)
    return show(arguments, {"id": job_id}, f"Job {job_id} tells of a test.")

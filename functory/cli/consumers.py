"""`functory consumer`: work through the jobs of a type by their numbers, none skipped."""

import argparse
from typing import TYPE_CHECKING, Final

from functory.cli.answers import counted, inert, moment
from functory.cli.arguments import given
from functory.cli.commands import Commands
from functory.cli.remote import add_remote, show, show_table

if TYPE_CHECKING:
    from functory.client import Client
    from functory.wire.consumers import ConsumerDetail, ConsumerGap

_MARKS: Final = {"done": "#", "in_work": ">", "failed": "!"}
_WIDTH: Final = 60


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("consumer", help="work through the jobs of a type by number, none skipped")
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_put(actions)
    add_remote(actions.add_parser("list", help="all consumers, and how far each has come"), run_list)
    for name, run, text in (
        ("get", run_get, "progress of a consumer, its window, and what it waits for"),
        ("start", run_start, "start a consumer that was stopped"),
        ("stop", run_stop, "let no more jobs into the queue; those that are there go on"),
        ("check", run_check, "have a consumer look for new jobs now"),
        ("rm", run_remove, "delete a consumer; the jobs that it held enter the queue"),
    ):
        action = actions.add_parser(name, aliases=["delete"] if name == "rm" else [], help=text)
        action.add_argument("name")
        add_remote(action, run)


def _add_put(actions: Commands) -> None:
    put = actions.add_parser("put", help="create a consumer, or change its settings")
    put.add_argument("name")
    put.add_argument("source", help="the type whose jobs it works through")
    put.add_argument("--max-processing", type=int, metavar="N", help="jobs in work at a time (default: 100)")
    put.add_argument(
        "--max-search-ahead", type=int, metavar="N", help="how far beyond a gap jobs may start (default: 1000)"
    )
    put.add_argument("--pull", metavar="TYPE", help="ask the handler of this type for the jobs")
    put.add_argument("--start-index", type=int, metavar="N", help="where a new consumer begins")
    put.add_argument(
        "--on-failed", choices=["block", "skip"], help="what a failed job does to progress (default: block)"
    )
    put.add_argument("--on-progress", metavar="TYPE", help="add a job of this type each time progress has moved")
    put.add_argument("--next", metavar="TYPE", help="the source of the next stage of a pipeline")
    put.add_argument(
        "--max-lag", type=int, metavar="N", help="stop while the next stage has more to do (default: 1000)"
    )
    add_remote(put, run_put)


async def run_put(client: "Client", arguments: argparse.Namespace) -> int:
    settings = given(
        max_processing=arguments.max_processing,
        max_search_ahead=arguments.max_search_ahead,
        start_index=arguments.start_index,
        pull=arguments.pull,
        on_failed=arguments.on_failed,
        on_progress=arguments.on_progress,
        next=arguments.next,
        max_lag=arguments.max_lag,
    )
    answer = await client.put_consumer(arguments.name, arguments.source, **settings)
    return show(
        arguments, answer, f"{arguments.name} {'works on' if answer.created else 'goes on with'} {arguments.source}."
    )


async def run_list(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.list_consumers()
    rows = [
        (it.name, it.source, it.state, it.processed, it.head, it.lag, it.skips, it.leader or "-")
        for it in answer.consumers
    ]
    headers = ["name", "source", "state", "processed", "head", "lag", "skipped", "leader"]
    return show_table(arguments, answer, headers, rows, "No consumers.")


async def run_get(client: "Client", arguments: argparse.Namespace) -> int:
    found = await client.get_consumer(arguments.name)
    lines = [
        f"{found.name} works on {found.source}: {found.processed:,} of {found.head:,} processed, {found.lag:,} to go",
        f"{found.state}, led by daemon {found.leader or '-'}",
        f"{found.in_work:,} in work, {found.done_ahead:,} done ahead, {found.failed:,} failed, {found.skips:,} skipped",
    ]
    if found.window:
        lines.append(f"window  {_drawn(found)}  ({'  '.join(f'{mark} {name}' for name, mark in _MARKS.items())})")
    if found.trouble:
        lines.append(f"trouble with {found.pull}: {inert(found.trouble.encode())}")
    if found.next is not None and found.next_lag is not None:
        word = "waits for" if found.next_lag > found.max_lag else "is followed by"
        lines.append(f"{word} {found.next}, which has {found.next_lag:,} to go (at most {found.max_lag:,})")
    if found.gap is not None:
        lines.append(f"waits for {_gap_text(found.gap)}")
    return show(arguments, found, "\n".join(lines))


async def run_start(client: "Client", arguments: argparse.Namespace) -> int:
    await client.start_consumer(arguments.name)
    return show(arguments, {"ok": True}, f"{arguments.name} is running.")


async def run_stop(client: "Client", arguments: argparse.Namespace) -> int:
    await client.stop_consumer(arguments.name)
    return show(arguments, {"ok": True}, f"{arguments.name} is stopped.")


async def run_check(client: "Client", arguments: argparse.Namespace) -> int:
    answer = await client.check_consumer(arguments.name)
    return show(arguments, answer, f"Daemon {answer.leader} looks." if answer.leader else "No daemon leads it yet.")


async def run_remove(client: "Client", arguments: argparse.Namespace) -> int:
    freed = await client.delete_consumer(arguments.name)
    return show(arguments, {"freed": freed}, f"{arguments.name} is deleted; {counted(freed, 'job')} entered the queue.")


def _drawn(found: "ConsumerDetail") -> str:
    """The window as a line: each mark stands for the same number of indexes, and shows the worst of them."""
    first, last = found.window[0].first, found.window[-1].last
    step = -(-(last - first + 1) // _WIDTH)
    marks = ["#"] * -(-(last - first + 1) // step)
    for state in ("in_work", "failed"):
        for span in found.window:
            if span.state == state:
                for place in range((span.first - first) // step, (span.last - first) // step + 1):
                    marks[place] = _MARKS[state]
    return f"{first:,} {''.join(marks)} {last:,}"


def _gap_text(gap: "ConsumerGap") -> str:
    text = f"index {gap.index:,}: job {gap.job_id} is {gap.code or gap.state} since {moment(gap.since_ms)}"
    if gap.code is None:
        return f"{text}: {gap.why}" if gap.why else text
    again = f"tried again at {moment(gap.next_ms)}" if gap.next_ms else "not tried again by itself"
    if gap.why:
        again += f" ({gap.why})"
    return f"{text}; {again}. Retry it, delete it, or set --on-failed skip"

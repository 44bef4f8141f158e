"""Many jobs that a command cancels, deletes or queues again: the question before, as many calls as it takes, the
number in the end.

Ensures: no more jobs are changed than the question named, and calls that follow one another come to an end while jobs
are added.
"""

import argparse
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from functory.cli.answers import counted, moment
from functory.cli.arguments import given
from functory.cli.confirmation import confirm, require_terminal
from functory.cli.remote import show

if TYPE_CHECKING:
    from functory.client import Client
    from functory.wire.jobs import Changed, Replayed

_Bulk = TypeVar("_Bulk", "Changed", "Replayed")
UNFINISHED: Final = ("waiting", "deferred", "paused", "lapsed", "running")
_PAGE: Final = 1000
_MOST_COUNTED: Final = 20_000
"""For a question."""


async def ask(
    client: "Client",
    arguments: argparse.Namespace,
    call: Callable[..., Awaitable["Changed"]],
    verb: str,
    states: Sequence[str],
    codes: Sequence[str] | None = None,
) -> "Changed | None":
    """Before jobs are changed: how many a dry run finds, and whether that is meant. Returns what it found; None if
    nobody was to be asked. Raises InvalidInput if it is not meant."""
    if arguments.dry_run or arguments.yes:
        return None
    require_terminal()
    found = await call(dry_run=True)
    await find_all(client, arguments, found, states, codes, most=_MOST_COUNTED)
    found.dry_run = False
    if found.matched:
        kind = _kind(states, codes)
        more = "more than " if arguments.all and found.more else ""
        rest = "" if arguments.all or not found.more else ", and leave more that match"
        await confirm(arguments, f"{verb} {more}{counted(found.matched, f'{kind} job')} {_chosen(arguments)}{rest}?")
    return found


def most_to_change(asked: "Changed | None", arguments: argparse.Namespace) -> float:
    """No more jobs than the question named."""
    if asked is None or (arguments.all and asked.more):
        return math.inf
    return asked.matched


def stop_at(answer: "Changed | Replayed", request: dict[str, Any], until: str) -> None:
    """The calls that follow are for what was there at the first: they leave out what is added or ends meanwhile.
    until: the field of the request that says so."""
    if answer.now_ms is not None:
        until_ms = answer.now_ms + 1
        request[until] = min(request.get(until, until_ms), until_ms)


def _kind(states: Sequence[str], codes: Sequence[str] | None) -> str:
    """What jobs a question is about."""
    if codes:
        return " or ".join(dict.fromkeys(codes))
    if states == ["archived"]:
        return "ended"
    return "unfinished" if set(states) == set(UNFINISHED) else " or ".join(dict.fromkeys(states))


def _chosen(arguments: argparse.Namespace) -> str:
    """What jobs were chosen by, for a question."""
    named = {"of type": arguments.type, "with the failure": arguments.failure, "with the key": arguments.job_key}
    words = [f"{which} {name}" for which, name in named.items() if name is not None]
    if "since" in arguments:
        times = {"ended since": arguments.since, "ended before": arguments.until}
        words += [f"{which} {moment(time_ms)}" for which, time_ms in times.items() if time_ms is not None]
    if getattr(arguments, "schedules", False):
        words.append("with schedules, which end")
    return " ".join(words)


async def until_none_match(
    arguments: argparse.Namespace, call: Callable[..., Awaitable[_Bulk]], count: str, most: float = math.inf
) -> _Bulk:
    """One call; with --all, as many as it takes, and the sum of their answers. They change `most` jobs at most. A job
    that matches although it was asked for before, because it cannot be changed, is no reason to go on."""
    from functory.cli.progress import Progress  # noqa: PLC0415 (not for the parser)

    answer = await call(**_within(arguments, most))
    if not arguments.all or arguments.dry_run:
        return answer
    seen = dict.fromkeys(answer.ids)
    total, schedules = getattr(answer, count), answer.schedules
    with Progress(count, None) as progress:
        while answer.more and total < most:
            progress.at(total)
            answer = await call(**_within(arguments, most - total))
            news = [job_id for job_id in answer.ids if job_id not in seen]
            if not news:
                break
            seen |= dict.fromkeys(news)
            total += getattr(answer, count)
            schedules = answer.schedules + (schedules if count == "replayed" else 0)
        progress.at(total)
    answer.ids, answer.matched = list(seen), len(seen)
    setattr(answer, count, total)
    answer.schedules = schedules
    return answer


def _within(arguments: argparse.Namespace, most: float) -> dict[str, int]:
    """The limit of a call that may change so many jobs."""
    return {} if most == math.inf else {"limit": min(arguments.limit or _PAGE, int(most))}


async def find_all(
    client: "Client",
    arguments: argparse.Namespace,
    answer: "Changed | Replayed",
    states: Sequence[str],
    codes: Sequence[str] | None = None,
    most: float = math.inf,
) -> None:
    """After a dry run with --all: the rest of what matches, up to `most` or so. The same dry run again would find the
    same jobs, so all are listed page by page, which needs the scope `read`."""
    from functory.cli.progress import Progress  # noqa: PLC0415 (not for the parser)

    if not (arguments.all and answer.dry_run and answer.more):
        return
    filters = given(
        type=arguments.type,
        failure=arguments.failure,
        key=arguments.job_key,
        code=codes and ",".join(dict.fromkeys(codes)),
    )
    if "since" in arguments:
        filters |= given(since_ms=arguments.since, until_ms=arguments.until)
    has_all = getattr(arguments, "schedules", True)
    found: dict[str, None] = {}
    schedules: set[str] = set()
    with Progress("found", None) as progress:
        for state in dict.fromkeys(states):
            cursor, is_done = None, False
            while not is_done and len(found) < most:
                page = await client.results(state=state, cursor=cursor, limit=_PAGE, **filters)
                schedules |= {job.id for job in page.jobs if job.repeat and not has_all}
                found |= dict.fromkeys(job.id for job in page.jobs if job.id not in schedules)
                progress.at(len(found))
                cursor, is_done = page.cursor, page.cursor is None
    answer.ids, answer.matched, answer.more = list(found), len(found), len(found) >= most
    answer.schedules = len(schedules)


def show_bulk(arguments: argparse.Namespace, answer: "Changed | Replayed", count: int, done: str) -> int:
    if answer.dry_run:
        verb = "matches" if answer.matched == 1 else "match"
        text = f"{counted(answer.matched, 'job')} {verb}."
        if answer.more:
            text = f"At least {text} Use --all to count all of them."
    else:
        text = f"{counted(count, 'job')} {done}."
        if answer.more:
            text += f" More match{' by now: ' if arguments.all else ': use --all, or '}repeat the command."
    if answer.schedules:
        text += f" {counted(answer.schedules, 'schedule')} left alone: use --schedules for jobs that repeat, too."
    return show(arguments, answer, text)

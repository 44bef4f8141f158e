"""`functory job list`: the jobs of one state or of several, and a word on the others where there are none."""

import argparse
import sys

from functory.cli.job_views import show_page
from functory.cli.jobs import STATES
from functory.client import Client
from functory.errors import InvalidInput
from functory.wire.jobs import Page


async def list_jobs(client: Client, arguments: argparse.Namespace) -> int:
    states = _states(arguments.state, arguments.code)
    if len(states) > 1 and arguments.cursor:
        raise InvalidInput("--cursor continues the list of one state: name it with --state")
    if arguments.limit < 1:
        raise InvalidInput("--limit is at least 1")
    page, is_cut = await _of_states(client, arguments, states)
    status = show_page(arguments, page, f"No {' or '.join(states)} jobs." if len(states) < len(STATES) else "No jobs.")
    if not page.jobs and not arguments.state and not arguments.code and not arguments.json:
        await _tell_of_others(client, arguments)
    if is_cut:
        print("There may be more: use a higher --limit, or one --state and its --cursor", file=sys.stderr)
    return status


def _states(said: list[str] | None, codes: list[str] | None) -> list[str]:
    if codes and said and not {"all", "archived"} & {*said}:
        raise InvalidInput("--code is the outcome of archived jobs: leave --state out")
    if codes or not said:
        return ["archived"]
    return list(STATES) if "all" in said else list(dict.fromkeys(said))


async def _of_states(client: Client, arguments: argparse.Namespace, states: list[str]) -> tuple[Page, bool]:
    """State after state, up to the limit; and whether some may have been left out, of which no cursor tells."""
    page = Page([], None)
    is_cut = False
    for state in states:
        left = arguments.limit - len(page.jobs)
        if left <= 0:
            return page, True
        more = await client.results(
            type=arguments.type,
            state=state,
            code=arguments.code and ",".join(arguments.code),
            since_ms=arguments.since,
            until_ms=arguments.until,
            limit=left,
            cursor=arguments.cursor,
        )
        page = Page([*page.jobs, *more.jobs], more.cursor if len(states) == 1 else None)
        is_cut |= bool(more.cursor) and len(states) > 1
    return page, is_cut


async def _tell_of_others(client: Client, arguments: argparse.Namespace) -> None:
    """Who asks for jobs and sees none may look for those that are not over."""
    live = [
        state
        for state in STATES
        if state != "archived" and (await client.results(type=arguments.type, state=state, limit=1)).jobs
    ]
    if live:
        print(f"There are {' and '.join(live)} ones: --state {','.join(live)}", file=sys.stderr)

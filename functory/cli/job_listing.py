"""`functory job list`: the jobs of one state or of several, and a word on the others where there are none."""

import argparse
import sys

from functory.cli.job_views import show_page
from functory.cli.jobs import STATES
from functory.client import Client
from functory.errors import InvalidInput


async def list_jobs(client: Client, arguments: argparse.Namespace) -> int:
    states = _states(arguments.state, arguments.code)
    page = await client.results(
        type=arguments.type,
        state=",".join(states),
        code=arguments.code and ",".join(arguments.code),
        since_ms=arguments.since,
        until_ms=arguments.until,
        limit=arguments.limit,
        cursor=arguments.cursor,
    )
    status = show_page(arguments, page, f"No {' or '.join(states)} jobs." if len(states) < len(STATES) else "No jobs.")
    if not page.jobs and not arguments.state and not arguments.code and not arguments.json:
        await _tell_of_others(client, arguments)
    return status


def _states(said: list[str] | None, codes: list[str] | None) -> list[str]:
    if codes and said and not {"all", "archived"} & {*said}:
        raise InvalidInput("--code is the outcome of archived jobs: leave --state out")
    if codes or not said:
        return ["archived"]
    return list(STATES) if "all" in said else list(dict.fromkeys(said))


async def _tell_of_others(client: Client, arguments: argparse.Namespace) -> None:
    """Who asks for jobs and sees none may look for those that are not over."""
    live = [
        state
        for state in STATES
        if state != "archived" and (await client.results(type=arguments.type, state=state, limit=1)).jobs
    ]
    if live:
        print(f"There are {' and '.join(live)} ones: --state {','.join(live)}", file=sys.stderr)

"""`functory job list`: the jobs of one state or of several, and a word on the others where there are none."""

import argparse
import sys
from typing import Any

from functory.cli.arguments import given
from functory.cli.job_views import MOST_CHARS, show_page
from functory.cli.jobs import HELD, STATES
from functory.client import Client
from functory.errors import InvalidInput
from functory.wire.jobs import Page


async def list_jobs(client: Client, arguments: argparse.Namespace) -> int:
    named = given(unique=arguments.unique, key=arguments.job_key, failure=arguments.failure)
    states = _states(arguments.state, arguments.code)
    is_anywhere = bool(named) and not (arguments.state or arguments.code or arguments.since or arguments.until)
    filters = given(
        type=arguments.type,
        state=None if is_anywhere else ",".join(states),
        code=arguments.code and ",".join(arguments.code),
        since_ms=arguments.since,
        until_ms=arguments.until,
        contains=arguments.contains,
        limit=arguments.limit,
        payload_bytes=None if arguments.json else MOST_CHARS,
    )
    page = await _read(client, filters | named, arguments.cursor)
    status = show_page(arguments, page, _nothing([] if is_anywhere else states))
    if page.looked_at is not None and not arguments.json:
        print(f"Looked at {page.looked_at:,} jobs.", file=sys.stderr)
    if (
        not page.jobs
        and not named
        and not arguments.contains
        and not arguments.state
        and not arguments.code
        and not arguments.json
    ):
        await _tell_of_others(client, arguments)
    return status


async def _read(client: Client, filters: dict[str, Any], cursor: str | None) -> Page:
    """A search goes on until it has found something, or has looked at all jobs."""
    looked_at = 0
    while True:
        page = await client.results(**filters, cursor=cursor)
        if page.looked_at is None:
            return page
        looked_at += page.looked_at
        if page.jobs or page.cursor is None:
            page.looked_at = looked_at
            return page
        cursor = page.cursor


def _nothing(states: list[str]) -> str:
    """What to say of no jobs; without states, of any."""
    words = ["paused or held" if state in HELD.values() else state for state in states]
    return f"No {' or '.join(words)} jobs." if 0 < len(states) < len(STATES) else "No jobs."


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

"""`functory job list`: the jobs of one state or of several, and a word on the others where there are none. `functory
export`: the same jobs as a whole, one a line.
"""

import argparse
import json
import sys
from typing import Any, Final

import msgspec

from functory.cli.answers import counted
from functory.cli.arguments import given
from functory.cli.job_views import MOST_CHARS, show_page
from functory.cli.jobs import HELD, STATES
from functory.client import Client
from functory.errors import InvalidInput
from functory.wire.jobs import Job, Page

_AT_ONCE: Final = 100
"""Jobs that are read together: each may have a result of 16 MB, and those of up to 256 KiB come in one answer."""


async def list_jobs(client: Client, arguments: argparse.Namespace) -> int:
    filters = _filters(arguments)
    shown = given(limit=arguments.limit, payload_bytes=None if arguments.json else MOST_CHARS)
    page = await _read(client, filters | shown, arguments.cursor)
    status = show_page(arguments, page, _nothing(filters.get("state", "").split(",")))
    if page.looked_at is not None and not arguments.json:
        print(f"Looked at {page.looked_at:,} jobs.", file=sys.stderr)
    if (
        not page.jobs
        and not filters.keys() & {"unique", "key", "failure"}
        and not arguments.contains
        and not arguments.state
        and not arguments.code
        and not arguments.json
    ):
        await _tell_of_others(client, arguments)
    return status


async def export_jobs(client: Client, arguments: argparse.Namespace) -> int:
    """Those that are deleted meanwhile are left out, and counted."""
    filters, cursor, left, written, gone = _filters(arguments), None, arguments.limit, 0, 0
    while left is None or left > written + gone:
        limit = _AT_ONCE if left is None else min(left - written - gone, _AT_ONCE)
        page = await client.results(**filters, limit=limit, cursor=cursor)
        found = await client.wait_for_jobs([job.id for job in page.jobs], timeout_s=0)
        for job in found.values():
            if job is None:
                gone += 1
                continue
            whole = job if _is_whole(job) else await client.get_job(job.id)
            print(json.dumps(msgspec.to_builtins(whole)))
            written += 1
        if (cursor := page.cursor) is None:
            break
    told = f"; deleted meanwhile: {counted(gone, 'job')}" if gone else ""
    print(f"Exported {counted(written, 'job')}{told}.", file=sys.stderr)
    return 0


def _is_whole(job: Job) -> bool:
    """A large one comes without payload, result and log where many are read together."""
    return not (job.payload is None and job.payload_bytes) and not (job.result is None and job.result_bytes)


def _filters(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, as the server is asked. Without a state: jobs in all of them."""
    named = given(unique=arguments.unique, key=arguments.job_key, failure=arguments.failure)
    is_anywhere = bool(named) and not (arguments.state or arguments.code or arguments.since or arguments.until)
    states = _states(arguments.state, arguments.code)
    return named | given(
        type=arguments.type,
        state=None if is_anywhere else ",".join(states),
        code=arguments.code and ",".join(arguments.code),
        since_ms=arguments.since,
        until_ms=arguments.until,
        contains=arguments.contains,
    )


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
    words = ["paused or held" if state in HELD.values() else state for state in states if state]
    return f"No {' or '.join(words)} jobs." if 0 < len(words) < len(STATES) else "No jobs."


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

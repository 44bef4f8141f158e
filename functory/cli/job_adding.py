"""`functory job add` and `job create`: payloads from arguments, files or standard input into jobs."""

import argparse
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import aiofiles

from functory.cli.answers import counted
from functory.cli.arguments import given
from functory.cli.job_waiting import show_ended
from functory.cli.progress import Progress
from functory.cli.remote import print_json
from functory.cli.standard_input import read_all, read_lines
from functory.client import Client, ClientError
from functory.errors import InvalidInput
from vocabulary.job_limits import RANGES

_LINES_A_REQUEST: Final = 1000
_BYTES_A_REQUEST: Final = 8 << 20
"""Half of what a request may have: payloads that are no lines grow by a third in it."""


async def add_jobs(client: Client, arguments: argparse.Namespace) -> int:
    payloads = [*map(os.fsencode, arguments.payload), *[await _read(name) for name in arguments.file or ()]]
    options = _options(arguments)
    if options.get("idempotency_key"):
        batches = _only_one(_batches(payloads, most_bytes=sys.maxsize))  # the server says whether it is too large
    else:
        batches = _batches(payloads, each_bytes=len(json.dumps(options)))
    ids: list[str] = []
    try:
        with Progress("added", len(payloads) or None) as progress:
            async for batch in batches:
                added = await client.add_jobs(arguments.type, batch, **options)
                ids += added.ids or []
                progress.at(len(ids))
    except BaseException:
        if ids:  # nobody should have to guess which
            _print_ids(arguments, ids)
            print(f"functory: already added: {counted(len(ids), 'job')}. Every id is printed.", file=sys.stderr)
        raise
    if not ids:
        raise InvalidInput("No payload: give one as an argument, or lines on standard input. Nothing was added.")
    await _hint_at_handler(client, arguments.type)
    if not arguments.wait:
        return _print_ids(arguments, ids)
    try:
        return await show_ended(client, ids, arguments, may_be_gone=True)
    except BaseException:  # they were added
        _print_ids(arguments, ids)
        raise


def _print_ids(arguments: argparse.Namespace, ids: list[str]) -> int:
    print_json({"count": len(ids), "ids": ids}) if arguments.json else print("\n".join(ids))
    return 0


async def create_jobs(client: Client, arguments: argparse.Namespace) -> int:
    """Jobs of several types from a JSON file, in one request."""
    data = await read_all() if arguments.file == "-" else await _read(arguments.file)
    added = await client.create_jobs(_jobs_of(data), idempotency_key=arguments.idempotency_key)
    return _print_ids(arguments, added.ids or [])


def _jobs_of(data: bytes) -> list[dict[str, Any]]:
    """An array, or one job a line."""
    try:
        text = data.decode()
        if text.lstrip().startswith("["):
            jobs = json.loads(text)
        else:
            jobs = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The jobs are not JSON: {error}. Nothing was added.") from None
    if not jobs or not all(isinstance(job, dict) for job in jobs):
        raise InvalidInput('Give at least one job, each such as {"type": "mail", "payload": "x"}. Nothing was added.')
    return list(jobs)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    options = given(
        delay_s=arguments.delay_s,
        dt=arguments.dt,
        priority=arguments.priority and int(arguments.priority),
        domain=arguments.domain,
        key=arguments.job_key,
        retry_after_s=arguments.retry_after_s,
        repeat=arguments.repeat,
        unique=arguments.unique,
        parent=arguments.parent,
        ack=arguments.ack,
        idempotency_key=arguments.idempotency_key,
        **{name: getattr(arguments, name) for name in RANGES},
    )
    if arguments.indexed:
        options["indexed"] = True
    if arguments.options is not None:
        try:
            options["options"] = json.loads(arguments.options)
        except ValueError as error:
            raise InvalidInput(f"--options is not JSON: {error}") from None
    return options


async def _read(name: str) -> bytes:
    async with aiofiles.open(name, "rb") as file:
        return await file.read()


async def _batches(
    payloads: Sequence[bytes], *, most_bytes: int = _BYTES_A_REQUEST, each_bytes: int = 0
) -> AsyncIterator[Sequence[bytes]]:
    """The payloads of one request after the other: those given, or else the lines of standard input, which is read
    while jobs are added, and never held as a whole. each_bytes: what a request has beside each payload."""
    waiting: list[bytes] = []
    async for some in _given(payloads) if payloads else _typed_or_piped():
        waiting += some
        while count := _full_request(waiting, most_bytes, each_bytes):
            yield waiting[:count]
            del waiting[:count]
    if waiting:
        yield waiting


async def _given(payloads: Sequence[bytes]) -> AsyncIterator[Sequence[bytes]]:
    yield payloads


async def _typed_or_piped() -> AsyncIterator[Sequence[bytes]]:
    """As in the body of a request, blank lines are ignored, and a line that starts with # is a comment."""
    if sys.stdin is not None and sys.stdin.isatty():
        print("Reading payloads from the terminal, one per line; Ctrl-D ends.", file=sys.stderr)
    async for lines in read_lines():
        yield [line for line in lines if line.strip() and not line.startswith(b"#")]


def _full_request(waiting: Sequence[bytes], most_bytes: int, each_bytes: int) -> int:
    """How many of the first payloads fill a request; 0 if there is room for more than all of them."""
    size_bytes = 0
    for number, payload in enumerate(waiting[:_LINES_A_REQUEST]):
        size_bytes += len(payload) + each_bytes
        if number and size_bytes > most_bytes:
            return number
    return _LINES_A_REQUEST if len(waiting) >= _LINES_A_REQUEST else 0


async def _only_one(batches: AsyncIterator[Sequence[bytes]]) -> AsyncIterator[Sequence[bytes]]:
    """Read to the end before anything is sent. Raises InvalidInput if there is another."""
    found: list[Sequence[bytes]] = []
    async for batch in batches:
        found.append(batch)
        if len(found) > 1:
            most = f"{_LINES_A_REQUEST:,}"
            raise InvalidInput(f"--idempotency-key is for one request, of up to {most} payloads. Nothing was added.")
    for batch in found:
        yield batch


async def _hint_at_handler(client: Client, job_type: str) -> None:
    """Say so when nothing can run the jobs yet."""
    if await has_no_handler(client, job_type):
        print(f"Type {job_type} has no handler yet, so its jobs wait.", file=sys.stderr)
        print(f"Register one: functory handler put {job_type} FILE", file=sys.stderr)
        print(f"If workers serve it: functory handler put {job_type} --lang worker", file=sys.stderr)


async def has_no_handler(client: Client, job_type: str) -> bool:
    """False also for a key that may not look."""
    try:
        await client.get_handler(job_type)
    except ClientError as error:
        return error.status == 404
    return False

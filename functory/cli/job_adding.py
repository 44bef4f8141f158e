"""`functory job add`: payloads from arguments or standard input into jobs; and waiting for them without silence."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiofiles

from functory.cli.answers import reason
from functory.cli.arguments import given
from functory.cli.job_views import results_table, show_progress
from functory.cli.progress import Progress
from functory.cli.remote import print_json
from functory.client import Client, ClientError
from functory.errors import InvalidInput
from functory.wire.jobs import Job

_LINES_A_REQUEST = 1000
_BYTES_A_READ = 256 * 1024
_LOOK_S = 5.0
_LOOK_WHILE_IT_RUNS_S = 0.5
"""How long to wait for a job before saying why it has not ended."""


async def add_jobs(client: Client, arguments: argparse.Namespace) -> int:
    payloads = [*arguments.payload, *[await _read(name) for name in arguments.file or ()]]
    options = _options(arguments)
    ids: list[str] = []
    with Progress("added", len(payloads) or None) as progress:
        async for batch in _batches(payloads):
            if options.get("idempotency_key") and ids:
                raise InvalidInput(f"--idempotency-key is for one request, of up to {_LINES_A_REQUEST:,} payloads")
            added = await client.add_jobs(arguments.type, batch, **options)
            ids += added.ids or []
            progress.at(len(ids))
    if not ids:
        raise InvalidInput("No payload: give one as an argument, or lines on standard input. Nothing was added.")
    await _hint_at_handler(client, arguments.type)
    if not arguments.wait:
        print_json({"count": len(ids), "ids": ids}) if arguments.json else print("\n".join(ids))
        return 0
    jobs = await until_ended(client, ids, arguments.timeout_s)
    print_json(jobs) if arguments.json else print(results_table(jobs))
    return 0 if all(job.state == "archived" and job.code == "ok" for job in jobs) else 1


async def create_jobs(client: Client, arguments: argparse.Namespace) -> int:
    """Jobs of several types from a JSON file, in one request."""
    if arguments.file == "-":
        text = "".join(await aiofiles.stdin.readlines())
    else:
        async with aiofiles.open(arguments.file, encoding="utf-8") as file:
            text = await file.read()
    added = await client.create_jobs(_jobs_of(text), idempotency_key=arguments.idempotency_key)
    ids = added.ids or []
    print_json({"count": len(ids), "ids": ids}) if arguments.json else print("\n".join(ids))
    return 0


def _jobs_of(text: str) -> list[dict[str, Any]]:
    """An array, or one job a line."""
    try:
        if text.lstrip().startswith("["):
            jobs = json.loads(text)
        else:
            jobs = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
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


async def _batches(payloads: Sequence[str | bytes]) -> AsyncIterator[Sequence[str | bytes]]:
    """The payloads of one request after the other: those given, or else the lines of standard input.

    Standard input is read while jobs are added, and never held as a whole. As in the body of a request, blank lines are
    ignored, and a line that starts with # is a comment.
    """
    for start in range(0, len(payloads), _LINES_A_REQUEST):
        yield payloads[start : start + _LINES_A_REQUEST]
    if payloads:
        return
    if sys.stdin.isatty():
        print("Reading payloads from the terminal, one per line; Ctrl-D ends.", file=sys.stderr)
    waiting: list[str] = []
    while lines := await aiofiles.stdin.readlines(_BYTES_A_READ):
        waiting += [line.rstrip("\n") for line in lines if line.strip() and not line.startswith("#")]
        while len(waiting) >= _LINES_A_REQUEST:
            yield waiting[:_LINES_A_REQUEST]
            del waiting[:_LINES_A_REQUEST]
    if waiting:
        yield waiting


async def _hint_at_handler(client: Client, job_type: str) -> None:
    """Say so when nothing can run the jobs yet. A key that may not look gets no hint."""
    try:
        await client.get_handler(job_type)
    except ClientError as error:
        if error.status == 404:
            print(f"Type {job_type} has no handler yet, so its jobs wait.", file=sys.stderr)
            print(f"Register one: functory handler put {job_type} FILE", file=sys.stderr)


async def until_ended(client: Client, ids: Sequence[str], timeout_s: float | None) -> list[Job]:
    """The jobs once all have ended, or as they are when the time is up. Says on standard error what is being waited
    for, whenever that changes."""
    loop = asyncio.get_running_loop()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    jobs: list[Job] = []
    told = ""
    with Progress("ended", len(ids)) as progress:
        for done, job_id in enumerate(ids, start=1):
            look_s = _LOOK_S
            while True:
                left_s = look_s if deadline is None else min(look_s, max(deadline - loop.time(), 0.0))
                job = await client.get_job(job_id, wait_s=left_s)
                is_late = deadline is not None and loop.time() >= deadline
                if job.state == "archived":
                    break
                why = await client.why(job_id)
                text = reason(why)
                if job.progress is not None:
                    text, look_s = show_progress(job.progress), _LOOK_WHILE_IT_RUNS_S
                if text != told and why.state != "archived":
                    told = text
                    progress.say(f"Waiting for {job_id}: {told}")
                if is_late:
                    break
            jobs.append(job)
            progress.at(done)
    return jobs

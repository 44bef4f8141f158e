"""`functory demo`: the whole service at work, on a free port and in a temporary folder. It has tenants,
handlers in several languages, a few thousand jobs with a chain, retries and failures, and shows their results.
It cleans up after itself."""

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from functory.cli.commands import Commands
from functory.cli.progress import Progress
from functory.cli.scoreboard import render_scoreboard
from functory.client import Client
from functory.daemon.own_process import run_own_daemon

_RUN_TIMEOUT_S: Final = 300.0


class _NotIsolated(Exception):
    """The daemon refuses to run tenants' code on this machine."""


class DemoType(NamedTuple):
    """A handler, its jobs, and how many jobs end for each of them (a chain makes more)."""

    tenant: str
    name: str
    lang: str
    about: str
    body: str
    jobs: int
    ends_per_job: int = 1


TYPES: Final = (
    DemoType("acme", "thumb", "python", "returns a result", "return {'thumb': payload + '.png'}", 2000),
    DemoType(
        "acme",
        "crawl",
        "python",
        "makes three more jobs each",
        "for n in range(3): print(f'J: page|{payload}/{n}')",
        200,
        4,
    ),
    DemoType("acme", "page", "python", "is made by crawl", "return len(payload) and None", 0),
    DemoType("acme", "shout", "sh", "reads its payload on stdin", "tr a-z A-Z", 200),
    DemoType(
        "globex",
        "greet",
        "node",
        "is asynchronous",
        "return { hello: await Promise.resolve(payload) };",
        1000,
    ),
    DemoType(
        "globex",
        "flaky",
        "python",
        "succeeds at the third try",
        "if ctx.attempt < 3: return ctx.retry(after_s=0.2)\nreturn 'at last'",
        100,
    ),
    DemoType(
        "globex",
        "picky",
        "python",
        "refuses every tenth",
        "if int(payload) % 10 == 0: return ctx.fail('not a number I like')\nreturn None",
        500,
    ),
)


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("demo", help="show the whole service at work, in a temporary folder")
    parser.set_defaults(run=run_demo)


def run_demo(_: argparse.Namespace) -> int:
    return asyncio.run(demo())


async def demo() -> int:
    folder = Path(tempfile.mkdtemp(prefix="functory-demo-"))
    try:
        return await _demo(folder)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _demo(folder: Path) -> int:
    print("Functory demo: a real daemon on the embedded store, two tenants, handlers in several languages.\n")
    try:
        return await _show_off(folder, [])
    except _NotIsolated as error:
        # The demo's handlers are ours, so it may run them unconfined. A service would refuse.
        print("Note: " + str(error).replace("; ", "\n  - "))
        print("The demo's handlers are harmless, so it goes on without a sandbox.\n")
        return await _show_off(folder / "unconfined", ["--min-isolation", "L0", "--all-tenants-trusted", "true"])


async def _show_off(folder: Path, flags: list[str]) -> int:
    async with run_own_daemon(folder, flags) as daemon:
        async with Client(daemon.url, await daemon.operator_key()) as operator:
            info = (await operator.list_daemons()).daemons[0].info
            if "isolation" in info["problems"]:
                raise _NotIsolated(info["problems"]["isolation"])
            clients = {}
            for name in ("acme", "globex"):
                await operator.create_tenant(name)
                clients[name] = Client(daemon.url, (await operator.create_key(name)).key, name)
            types = [each for each in TYPES if each.lang in info["languages"]]
            for each in TYPES:
                if each not in types:
                    reason = info["unable"].get(each.lang, f"{each.lang} is not installed")
                    print(f"  {each.tenant}: handler {each.name} is left out: {reason}")
            try:
                await _register(clients, types)
                await _run(clients, types)
                await _show(clients)
            finally:
                for client in clients.values():
                    await client.close()
        print(f"\nTenants' code ran at isolation level {info['isolation']}; `functory doctor` says what that is.")
        print(NEXT)
    print(f"\nThe daemon was asked to stop and ended with status {daemon.status}.")
    return 0


async def _register(clients: dict[str, Client], types: list[DemoType]) -> None:
    for each in types:
        handler = await clients[each.tenant].put_handler(each.name, each.lang, each.body)
        print(f"  {each.tenant}: handler {each.name} ({each.lang}, version {handler.version}) {each.about}")
    print()


async def _run(clients: dict[str, Client], types: list[DemoType]) -> None:
    began = time.monotonic()
    posted = 0
    for each in types:
        payloads = [str(n) for n in range(each.jobs)]
        for start in range(0, len(payloads), 1000):
            posted += (await clients[each.tenant].add_jobs(each.name, payloads[start : start + 1000])).count
    accepted_s = time.monotonic() - began
    expected = sum(each.jobs * each.ends_per_job for each in types)
    print(f"Posted {posted:,} jobs, durable when answered, in {accepted_s:.2f} s. They and their offspring run:")
    async with asyncio.timeout(_RUN_TIMEOUT_S):
        with Progress("jobs ended", expected) as progress:
            while (ended := await _ended(clients)) < expected:
                progress.at(ended)
                await asyncio.sleep(0.1)
            progress.at(ended)
    elapsed_s = time.monotonic() - began
    speed = f"{ended / elapsed_s:,.0f} jobs/s from first post to last recorded outcome"
    print(f"{ended:,} jobs in {elapsed_s:.2f} s: {speed}.\n")


async def _ended(clients: dict[str, Client]) -> int:
    boards = [await client.scoreboard() for client in clients.values()]
    return sum(row.ok + row.failed + row.abandoned + row.cancelled for board in boards for row in board.types)


async def _show(clients: dict[str, Client]) -> None:
    for client in clients.values():
        print(render_scoreboard(await client.scoreboard()) + "\n")
    failures = await clients["globex"].failures()
    for group in failures.failures:
        print(f"globex {group.type}: {group.runs} runs ended with: {group.message}")
    page = await clients["acme"].results(type="thumb", limit=1)
    job = await clients["acme"].get_job(page.jobs[0].id)
    print(f"acme thumb, job {job.id}: {job.exitcode} {job.code}, result {job.result}")


NEXT: Final = """
Next: `make serve` stays up. Then, in a second terminal:

  export PATH=$PWD/.venv/bin:$PATH
  functory tenant create acme --key-file functory-data/operator.key      # prints acme's key
  export FUNCTORY_URL=http://127.0.0.1:8484 FUNCTORY_TENANT=acme FUNCTORY_KEY=fk_...   # that key
  echo 'return {"hello": payload}' > greet.py
  functory handler put greet greet.py
  functory job add greet Ada Grace --wait                                # posts two jobs and shows their results"""

"""What is told while packages are resolved and installed: to whom, and without what nobody may read."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handlers.bootstraps.packages import npm_trouble, step_in
from handlers.packages import Lock, LockedPackage, Requirements
from runner.packages.sandbox import Curtain, _Listener
from tests.support.told_sandbox import HASH, ToldSandbox, packages

LOCK = Lock("1" * 32, "3.11", (LockedPackage("requests", "2.31.0", (HASH,)),))


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not met():  # noqa: ASYNC110 (several tasks bring it about: no one event)
            await asyncio.sleep(0)


async def test_whoever_asks_hears_the_steps_of_its_own_tenant(tmp_path: Path) -> None:
    told = ToldSandbox()
    shelf = packages(told, tmp_path, builds=1)
    first: list[str] = []
    second: list[str] = []
    queued: list[str] = []
    await shelf.lock("acme", Requirements(("a",)), tell=first.append)
    told.gate.clear()
    build = asyncio.create_task(shelf.have("acme-x", LOCK, first.append))
    await until(lambda: told.now > 0)
    joined = asyncio.create_task(shelf.have("acme-x", LOCK, second.append))
    other = asyncio.create_task(shelf.have("other-x", LOCK, queued.append))
    await until(lambda: bool(second and queued))
    build.cancel()  # it leaves: the build goes on for the others, and tells it nothing more
    await asyncio.wait([build])
    told.tell("fetched a")
    told.gate.set()
    await asyncio.gather(joined, other)
    assert first == ["resolving", "installing"]
    assert second == ["installing", "fetched a"]
    assert queued == ["waiting for its turn", "installing"]
    assert shelf._building == {}


def test_of_a_package_that_is_not_there_its_name_is_told_and_no_advice_that_does_not_hold_here() -> None:
    said = [
        "npm error code E404",
        "npm error 404 Not Found - GET http://h/gone - not found",
        "npm error 404",
        "npm error 404  The requested resource 'gone@1' could not be found",
        "npm error 404 Note that you can also install from a",
        "npm error 404 tarball, folder, http url, or git url.",
        "npm error A complete log of this run can be found in: /x",
    ]
    assert npm_trouble([f"{line}\n" for line in said]).split("\n") == [
        "404 Not Found - GET http://h/gone - not found",
        "404  The requested resource 'gone@1' could not be found",
    ]


ACCOUNT = "someone:hid%2Fden-word"


@pytest.mark.parametrize("at", range(0, 80, 7))
def test_a_step_is_a_whole_line_without_the_account(at: int) -> None:
    said = f"GET http://{ACCOUNT}@host/beta, password hid/den-word,\x1b[1m\u202e done\nnex".encode()
    steps: list[str] = []
    reader, writer = os.pipe()
    listener = _Listener(reader, Curtain(ACCOUNT), steps.append)
    for part in (said[:at], said[at:]):
        os.write(writer, part or b"\n")
        listener.hear()
    os.close(writer)
    os.close(reader)
    assert steps == ["GET http://host/beta, password ***,[1m done"]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Downloading numpy (16.1MiB)\n", "fetching numpy, 16.1MiB"),
        (" Downloaded numpy\n", "fetched numpy"),
        ("\x1b[32m +\x1b[0m numpy==2.4.6\n", "installed numpy 2.4.6"),
        ("   Building needsbuild==1.0\n", "building needsbuild==1.0"),
        (
            "npm http fetch GET 200 https://registry.npmjs.org/@some%2fscoped 12ms (cache miss)\n",
            "fetched @some/scoped",
        ),
        ("npm http fetch GET 200 http://h:1/beta/-/beta-1.0.0.tgz 9ms\n", "fetched beta-1.0.0.tgz"),
        ("npm http fetch GET 404 http://h:1/gone 9ms\n", ""),
        ("Using CPython 3.11.7 interpreter at: /opt/python/bin/python3.11\n", ""),
        ("Installed 1 package in 19ms\n", ""),
        ("error: something at /home/x\n", ""),
    ],
)
def test_of_what_the_tools_print_the_progress_is_told_and_nothing_else(line: str, step: str) -> None:
    assert step_in(line) == step


@pytest.mark.parametrize("cut", [1000, 4096, 5000])
def test_a_step_is_short_and_a_long_line_shows_no_piece_of_the_account(cut: int) -> None:
    steps: list[str] = []
    line = "x" * (cut - 12) + ACCOUNT
    reader, writer = os.pipe()
    listener = _Listener(reader, Curtain(ACCOUNT), steps.append)
    os.write(writer, line[:cut].encode() + b"\n" + b"y" * 5000)
    listener.hear()
    os.write(writer, b"z\n")
    listener.hear()
    os.close(writer)
    os.close(reader)
    assert steps == ["x" * 200, "y" * 200]
    assert "someone" not in Curtain(ACCOUNT).before(line[:cut])

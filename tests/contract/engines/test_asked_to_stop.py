"""A job that takes too long is asked to stop: it can clean up, its result says how long it had and where it was."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from handlers.model import Handler
from runner.launch import Launcher
from runner.limits import ContextLimits
from runner.runner import Runner, RunnerSettings
from tests.support.engines import jobs, run

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patient(launcher: Launcher) -> AsyncIterator[Runner]:
    """Jobs end before it kills them, however busy the machine is."""
    made = Runner(launcher, RunnerSettings(limits=replace(ContextLimits(), kill_grace_s=20)))
    yield made
    await made._pool.close()  # the launcher is everybody's


WAITS = {
    "itself": "await asyncio.sleep(60)",
    "in a task of a group": "async with asyncio.TaskGroup() as group: group.create_task(asyncio.sleep(60))",
    "for a future": "await asyncio.get_running_loop().create_future()",
    "busily": "time.sleep(60)",
    "for a task that is busy": "task = asyncio.create_task(spin()); await asyncio.Event().wait()",
}


@pytest.mark.parametrize("how", WAITS)
async def test_the_finally_blocks_of_an_async_handler_run(patient: Runner, how: str) -> None:
    body = f"""import asyncio, time
async def spin(): time.sleep(60)
async def handler(payload, ctx):
    try:
        {WAITS[how]}
    finally:
        await asyncio.sleep(0)
        print('cleaned up')"""
    (stopped,) = (await run(patient, Handler("python", body, timeout_s=1), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.log) == (504, b"cleaned up\n"), stopped.result.decode()
    assert WAITS[how].encode() in stopped.result, "the traceback shows where it was"
    assert stopped.result.splitlines()[-1] == b"timed out after 1 s"


async def test_those_of_all_its_tasks_run(patient: Runner) -> None:
    body = """import asyncio
async def work():
    try: await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0)
        print('cleaned up')
tasks = [asyncio.create_task(work()) for _ in range(3)]
await asyncio.sleep(60)"""
    (stopped,) = (await run(patient, Handler("python", body, timeout_s=1), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.log) == (504, b"cleaned up\n" * 3)


async def test_what_goes_wrong_in_one_of_them_is_told(patient: Runner) -> None:
    body = "import asyncio\ntry: await asyncio.sleep(60)\nfinally: {}['gone']"
    (stopped,) = (await run(patient, Handler("python", body, timeout_s=1), jobs("x"))).stopped
    assert stopped.exitcode == 504
    assert stopped.result.splitlines()[-2:] == [b"KeyError: 'gone'", b"timed out after 1 s"]


async def test_an_async_handler_that_is_cancelled_by_itself_is_not_one_that_timed_out(patient: Runner) -> None:
    (stopped,) = (
        await run(patient, Handler("python", "import asyncio\nraise asyncio.CancelledError"), jobs("x"))
    ).stopped
    assert stopped.exitcode == 500
    assert b"CancelledError" in stopped.result


async def test_a_result_shows_frames_of_the_handler_and_none_of_ours(patient: Runner) -> None:
    (stopped,) = (await run(patient, Handler("python", "while True: pass", timeout_s=1), jobs("x"))).stopped
    assert stopped.result.decode().splitlines() == [
        "Traceback (most recent call last):",
        '  File "handler.py", line 1, in handler',
        "    while True: pass",
        "timed out after 1 s",
    ]


IGNORES = """import os, signal
try:
    os.kill(os.getpid(), signal.SIGTERM)
    while True: pass
except BaseException: pass
"""


@pytest.mark.parametrize("value", ["None", "1"])
async def test_a_handler_that_goes_on_all_the_same_runs_no_later_job(patient: Runner, value: str) -> None:
    """They run elsewhere, so here they would run a second time."""
    batch = jobs("a", "b", "c")
    seen = await run(patient, Handler("python", f"{IGNORES}return {value}"), batch)
    assert (seen.exitcodes, seen.given_back) == ([200], [job.id for job in batch[1:]])


async def test_nor_does_a_hook_that_goes_on(patient: Runner) -> None:
    seen = await run(patient, Handler("python", "print('ran')", before_each=IGNORES), jobs("a", "b"))
    assert [(one.exitcode, one.log) for one in seen.stopped] == [(500, b"")] * 2


TRAPS = {
    "a trap": ("trap 'echo cleaned up; exit' TERM; while :; do sleep 0.01; done", b"cleaned up\n"),
    "a program": ("sh -c \"trap 'echo cleaned up; exit' TERM; while :; do sleep 0.01; done\"", b"cleaned up\n"),
    "none": ("echo before; while :; do :; done", b"before\n"),
}


@pytest.mark.parametrize("which", TRAPS)
async def test_a_shell_has_time_for_its_trap(patient: Runner, which: str) -> None:
    body, log = TRAPS[which]
    (stopped,) = (await run(patient, Handler("sh", body, timeout_s=1), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.result) == (504, b"timed out after 1 s")
    assert stopped.log.replace(b"Terminated\n", b"") == log


async def test_so_has_one_that_prints_elsewhere(patient: Runner) -> None:
    """Nothing is heard of it but its end; in its trap it finds the output of the shell that waits for it."""
    trap = "trap 'sleep 0.1; echo cleaned up >/proc/$$/fd/1; exit' TERM"
    body = f"{trap}; exec >/dev/null 2>&1; while :; do sleep 0.01; done"
    (stopped,) = (await run(patient, Handler("sh", body, timeout_s=1), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.log) == (504, b"cleaned up\n")


async def test_a_hook_of_the_shell_ends_when_it_is_asked(patient: Runner) -> None:
    hook = "echo began; sleep 60; echo went on"
    (stopped,) = (await run(patient, Handler("sh", ":", before_each=hook, timeout_s=1), jobs("x"))).stopped
    assert stopped.exitcode == 504
    assert stopped.log.replace(b"Terminated\n", b"") == b"began\n"


@pytest.mark.slow
async def test_what_one_prints_that_then_goes_on_and_is_killed_is_kept(launcher: Launcher) -> None:
    made = Handler("sh", "trap 'echo cleaned up' TERM; while :; do sleep 0.01; done", timeout_s=1)
    runner = Runner(launcher, RunnerSettings(limits=replace(ContextLimits(), kill_grace_s=2)))
    (stopped,) = (await run(runner, made, jobs("x"))).stopped
    await runner._pool.close()  # the launcher is everybody's
    assert (stopped.exitcode, stopped.result) == (504, b"timed out after 1 s")
    assert stopped.log.replace(b"Terminated\n", b"") == b"cleaned up\n"

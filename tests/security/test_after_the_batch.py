"""Between batches only the bootstrap of a context lives: what a job left running is ended, or frozen on request."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable

import pytest

from handlers.model import Handler
from runner.context import ProcessContext
from runner.launch import Launcher
from runner.pool import PoolSettings
from runner.runner import Runner, RunnerSettings
from runner.sandbox.child import SandboxedChild
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer
from tests.support.engines import jobs, need_language, run

BUSY = """import os, subprocess
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: pass
        os._exit(0)
subprocess.Popen(['/bin/sh', '-c', 'while :; do :; done'])
"""


@pytest.fixture
async def launcher(machine: frozenset[Layer]) -> AsyncIterator[SandboxLauncher]:
    made = SandboxLauncher(machine)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def runner(launcher: Launcher) -> AsyncIterator[Runner]:
    made = Runner(launcher, RunnerSettings(pool=PoolSettings()))
    yield made
    await made.close()


def idle_context(runner: Runner) -> ProcessContext:
    return next(iter(runner._pool._all_idle())).context


async def is_quiet(context: ProcessContext) -> bool:
    """Whether nothing of it runs now: two readings, with time for any process to be given a turn."""
    before = await asyncio.to_thread(context.cpu_s)
    await asyncio.sleep(0.3)
    return await asyncio.to_thread(context.cpu_s) - before < 0.05


async def test_a_context_whose_init_does_not_answer_is_ended(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's programs have the uid of its init, and can have it run when no other of theirs wants to. The batch was
    over, and its slot was not free for as long as they liked."""
    monkeypatch.setattr("runner.sandbox.child._TIDY_S", 0.2)
    tidy = SandboxedChild.tidy

    async def tidy_stopped(child: SandboxedChild, *, keep_children: bool) -> int:
        os.kill(child.pid, signal.SIGSTOP)
        return await tidy(child, keep_children=keep_children)

    monkeypatch.setattr(SandboxedChild, "tidy", tidy_stopped)
    async with asyncio.timeout(30):
        assert (await run(runner, Handler("python", BUSY), jobs("a"))).exitcodes == [200]
        await runner.close()
    assert runner.gauges()["contexts"] == 0


async def test_what_a_batch_left_running_is_ended(runner: Runner) -> None:
    made = Handler("python", BUSY)
    assert (await run(runner, made, jobs("a"))).exitcodes == [200]
    context = idle_context(runner)
    assert context.child.tasks() <= 6, "the program, and its dead children until it waits for them"
    assert await is_quiet(context)
    assert (await run(runner, made, jobs("b"))).exitcodes == [200]
    assert idle_context(runner) is context


async def test_a_handler_may_keep_its_processes_and_they_sleep_meanwhile(runner: Runner, machine: set[Layer]) -> None:
    if Layer.CGROUP not in machine:
        pytest.skip("without cgroups they are ended")
    body = """import os
global helper
if payload == 'start':
    ours, theirs = os.pipe(), os.pipe()
    if os.fork() == 0:
        while True: os.write(theirs[1], os.read(ours[0], 1))
    helper = ours[1], theirs[0]
    for _ in range(2):
        if os.fork() == 0:
            while True: pass
else:
    os.write(helper[0], b'x')
    return os.read(helper[1], 1)"""
    made = Handler("python", body, options={"keep_processes": 1})
    assert (await run(runner, made, jobs("start"))).exitcodes == [200]
    context = idle_context(runner)
    assert context.child.tasks() == 4
    assert await is_quiet(context)
    seen = await run(runner, made, jobs("ask"))
    assert (seen.exitcodes, seen.results) == ([200], [b"x"])
    await context.close()
    with pytest.raises(ProcessLookupError):
        os.kill(context.child.pid, 0)


async def test_a_shell_stays_and_what_its_jobs_left_does_not(runner: Runner) -> None:
    made = Handler("sh", "(while :; do :; done) & echo S: 200 $kept", before="kept=yes")
    assert (await run(runner, made, jobs("a"))).results == [b"yes"]
    context = idle_context(runner)
    assert await is_quiet(context)
    assert (await run(runner, made, jobs("b"))).results == [b"yes"]
    assert idle_context(runner) is context


async def test_node_stays(runner: Runner) -> None:
    need_language("node")
    body = "require('child_process').spawn('sh', ['-c', 'while :; do :; done'], {detached: true}).unref()"
    made = Handler("node", f"(payload) => {{ {body}; return payload; }}")
    assert (await run(runner, made, jobs("a"))).exitcodes == [200]
    context = idle_context(runner)
    assert await is_quiet(context)
    assert (await run(runner, made, jobs("b"))).exitcodes == [200]
    assert idle_context(runner) is context


async def test_a_fork_bomb_that_cannot_be_caught_costs_its_context(runner: Runner) -> None:
    body = """import os
if os.fork() == 0:
    while True:
        if os.fork(): os._exit(0)"""
    made = Handler("python", body)
    assert (await run(runner, made, jobs("a"))).exitcodes == [200]
    async with asyncio.timeout(60):
        while not all([await is_quiet(seat.context) for seat in runner._pool._all_idle()]):
            await runner.sweep()  # as the daemon does every now and then


async def test_threads_that_burn_while_idle_cost_their_context_and_are_charged(runner: Runner) -> None:
    charged: list[tuple[str, float]] = []
    runner.when_burnt(lambda tenant, seconds: charged.append((tenant, seconds)))
    body = """import threading
def burn():
    while True: pass
threading.Thread(target=burn, daemon=True).start()"""
    assert (await run(runner, Handler("python", body), jobs("a"))).exitcodes == [200]
    context = idle_context(runner)

    async def swept() -> bool:
        await runner.sweep()
        return not context.usable

    await eventually(swept)
    assert {tenant for tenant, _ in charged} == {"acme"}
    assert sum(seconds for _, seconds in charged) >= 0.1


async def test_what_burns_between_two_batches_is_charged(runner: Runner, machine: set[Layer]) -> None:
    if Layer.CGROUP not in machine:
        pytest.skip("without cgroups only what a sweep sees is charged")
    charged: list[float] = []
    runner.when_burnt(lambda _, seconds: charged.append(seconds))
    body = """import threading
def burn():
    while True: pass
if payload == 'a': threading.Thread(target=burn, daemon=True).start()"""
    made = Handler("python", body)
    await run(runner, made, jobs("a"))
    context = idle_context(runner)
    before_s = context.cpu_s()

    async def burnt() -> bool:
        return context.cpu_s() - before_s > 0.05

    await eventually(burnt)
    await run(runner, made, jobs("b"))
    assert sum(charged) >= 0.05


async def eventually(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not await true():  # type: ignore[misc]  # noqa: ASYNC110  another process has to act first
            await asyncio.sleep(0.05)

"""What contexts can make the daemon hold: bounded in bytes for each tenant and in all, whatever they send and when."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest

from handlers.model import Handler
from runner.context import ProcessContext
from runner.flow import Flow, FlowLimits
from runner.limits import ContextLimits
from runner.outcome import Stopped, size_bytes
from runner.plain import PlainLauncher
from runner.runner import Runner, RunnerSettings
from tests.support.engines import jobs, run

MIB = 1 << 20
LATER = """import os, struct, threading, time
def reply(kind, number, code=200, length=0, body=b''):
    os.write(4, struct.pack('<IBBHII', length or len(body), kind, 0, code, number, 0) + body)
def later(what):
    def wait():
        time.sleep(0.1); what()
    threading.Thread(target=wait, daemon=True).start()
"""


async def until(true: Callable[[], bool]) -> None:
    """Another process has to act first; there is no event of ours to wait for."""
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  see above
            await asyncio.sleep(0.01)


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    limits = replace(ContextLimits(), kill_grace_s=0.2, message_s=0.5)
    made = Runner(PlainLauncher(), RunnerSettings(limits=limits))
    yield made
    await made.close()


def only_context(runner: Runner) -> ProcessContext:
    return next(iter(runner._pool._all_idle())).context


@pytest.mark.parametrize(
    "act",
    [
        "os.write(4, b'\\x05')",
        "reply(5, 0, length=30_000_000)",
        "reply(5, 0)",
        "[os.write(1, b'J: x|' + b'a' * 100_000 + b'\\n') for _ in range(20)]",
    ],
    ids=["a byte", "half a frame", "a frame", "new jobs"],
)
async def test_an_idle_context_that_speaks_is_ended(runner: Runner, act: str) -> None:
    made = Handler("python", f"{LATER}later(lambda: {act})")
    assert (await run(runner, made, jobs("a"))).exitcodes == [200]
    context = only_context(runner)
    await until(lambda: not context.usable)
    assert runner.flow.total_bytes == 0


async def test_what_an_idle_context_prints_is_not_kept(runner: Runner) -> None:
    made = Handler("python", f"{LATER}later(lambda: os.write(1, b'J: x|1\\n' * 1000))")
    await run(runner, made, jobs("a"))
    context = only_context(runner)
    await until(lambda: context.log.total_bytes >= 7000)
    assert not context.log._kept
    assert not context.log.take().new_jobs


@pytest.mark.parametrize("kind", [2, 3, 6, 7, 8])
async def test_a_message_without_a_result_cannot_be_big(runner: Runner, kind: int) -> None:
    body = LATER + f"reply({kind}, 0, length=1_000_000); time.sleep(60)"
    seen = await run(runner, Handler("python", body, timeout_s=30.0), jobs("a"))
    assert seen.exitcodes == [502]
    assert b"1000000 bytes" in seen.results[0]


async def test_a_message_must_be_whole_in_time(runner: Runner) -> None:
    body = LATER + "reply(5, 0, length=30_000_000, body=b''); os.write(4, bytes(200_000)); time.sleep(60)"
    seen = await run(runner, Handler("python", body, timeout_s=50.0), jobs("a"))
    assert seen.exitcodes == [502]
    assert b"over one message" in seen.results[0]
    assert runner.flow.total_bytes == 0


async def test_a_refusal_cannot_be_big(runner: Runner) -> None:
    body = LATER + "reply(3, 0, code=500, length=33_000_000); time.sleep(60)\ndef handler(payload, ctx): pass"
    seen = await run(runner, Handler("python", body, timeout_s=30.0), jobs("a"))
    assert seen.exitcodes == [503]
    assert b"33000000 bytes" in seen.results[0]


async def test_results_wait_in_their_context_until_those_before_are_recorded() -> None:
    """A hundred results of a megabyte: the runner goes on reading only as what it has handed over is let go."""
    made = Runner(PlainLauncher(), RunnerSettings(flow=FlowLimits(tenant_bytes=4 * MIB, total_bytes=8 * MIB)))
    held: list[int] = []
    seen: list[Stopped] = []

    def hear(stopped: Sequence[Stopped]) -> None:
        for one in stopped:
            made.flow.hold("acme", size_bytes(one))
            held.append(size_bytes(one))
            seen.append(one)

    try:
        handler = Handler("python", "return bytes(2 ** 20)", timeout_s=0.3)
        task = asyncio.create_task(made.run_jobs("acme-big", jobs(*"x" * 100), handler, hear))
        most = 0
        while not task.done():
            await asyncio.sleep(0.02)  # as a store that takes its time
            most = max(most, made.flow.total_bytes)
            if held:
                made.flow.release("acme", held.pop(0))
        assert await task == []
    finally:
        await made.close()
    assert [one.exitcode for one in seen] == [200] * 100, "and nobody timed out for it"
    assert most < 6 * MIB


async def test_outcomes_that_wait_for_after_each_are_bounded(runner: Runner) -> None:
    handler = Handler("python", "return bytes(15_000_000)", after_each="pass")
    seen = await run(runner, handler, jobs(*"abcd"))
    assert seen.exitcodes == [200, 200, 413, 413]
    assert b"max_batch" in seen.results[2]


def test_whoever_holds_little_is_never_held_back() -> None:
    flow = Flow(FlowLimits(tenant_bytes=10, total_bytes=25, small_bytes=2))
    for tenant in "abc":
        flow.hold(tenant, 9)
    assert not flow.has_room("a")
    assert flow.has_room("d")
    flow.hold("d", 2)
    assert not flow.has_room("d")
    flow.release("a", 9)
    assert flow.has_room("d")


def test_of_unfinished_messages_the_oldest_can_always_go_on() -> None:
    flow = Flow(FlowLimits(tenant_bytes=10, total_bytes=25, small_bytes=0))
    woken: list[str] = []
    for reader in ("a1", "a2", "b1", "b2"):
        flow.hold_unfinished(reader, reader[0], 9)
    assert [reader for reader in ("a1", "a2", "b1", "b2") if flow.has_room(reader[0], reader)] == ["a1"]
    flow.when_room("b", "b1", lambda: woken.append("b1"))
    flow.forget("a1")
    assert not woken, "a2 is older"
    flow.hold_unfinished("a2", "a", 0)
    assert woken == ["b1"]
    assert flow.total_bytes == 18

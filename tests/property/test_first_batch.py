"""A handler and its first jobs leave together: whatever the replies are and however cut, each job counts once."""

import asyncio
import os
import struct
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.errors import HandlerError
from handlers.model import Handler
from runner import protocol
from runner.context import ProcessContext
from runner.errors import ContextEndedError, RunnerError
from runner.flow import Flow
from runner.launch import Exit, Level
from runner.limits import ContextLimits
from runner.outcome import Stopped
from tests.support.engines import jobs

IDS = [job.id for job in jobs(*"abc")]


class ScriptedChild:
    """A context that says what it is told to, whatever it is asked."""

    pid = 0
    level = Level.L0

    def __init__(self) -> None:
        self._requests, self.writer = os.pipe2(os.O_NONBLOCK)
        self.reader, self._replies = os.pipe2(os.O_NONBLOCK)
        self.log_fd, self._log = os.pipe2(os.O_NONBLOCK)
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    async def say(self, chunks: Sequence[bytes]) -> None:
        for chunk in chunks:
            if self._ended.done():
                return
            await self.speak(chunk)
        await self.kill()

    async def speak(self, chunk: bytes) -> None:
        os.write(self._replies, chunk)
        for _ in range(3):  # turns of the loop: it is read before more is there
            await asyncio.sleep(0)

    def take_listener(self) -> None:
        return None

    async def terminate(self) -> None: ...

    async def kill(self) -> None:
        if not self._ended.done():
            self._ended.set_result(Exit(status=0, signal=None))

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    def memory_bytes(self) -> int:
        return 0

    def oom_kills(self) -> int:
        return 0

    is_metered = True

    def tasks(self) -> int:
        return 1

    def cpu_s(self) -> float:
        return 0.0

    async def tidy(self, *, keep_children: bool) -> int:
        return 0

    def set_frozen(self, *, frozen: bool) -> bool:
        return True

    def close(self) -> None:
        for fd in (self._requests, self.writer, self.reader, self._replies, self.log_fd, self._log):
            os.close(fd)


def reply(kind: int, number: int, code: int = 0, body: bytes = b"") -> bytes:
    return struct.pack("<IBBHII", len(body), kind, 0, code, number, 0) + body


HONEST = b"".join(
    (
        reply(protocol.HELLO, protocol.VERSION),
        reply(protocol.LOADED, 0),
        *(reply(protocol.STOPPED, index, 200) for index in range(3)),
        reply(protocol.ENDED, 1),
    )
)
REFUSAL = b'{"field": "body", "message": "no", "line": 1, "column": 1}'


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(edge for edge in at if 0 < edge < len(stream)), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges) if start < end]


async def first_batch(chunks: list[bytes]) -> tuple[list[Stopped], list[str] | None]:
    """(reported, given back), with None when the handler did not load: then the caller reports all jobs."""
    child, stopped = ScriptedChild(), list[Stopped]()
    context = ProcessContext(child, ContextLimits(start_timeout_s=60.0), tenant="acme", flow=Flow(), memory_mb=64)
    saying = asyncio.create_task(child.say(chunks))
    try:
        left = await context.run("acme-test", Handler("python", "x"), jobs(*"abc"), stopped.extend)
    except (RunnerError, HandlerError):
        return stopped, None
    finally:
        await saying
        await context.close()
    return stopped, left


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(HONEST)), max_size=8))
def test_it_does_not_matter_how_the_replies_are_cut(at: list[int]) -> None:
    stopped, left = asyncio.run(first_batch(cut(HONEST, at)))
    assert ([one.id for one in stopped], left) == (IDS, [])
    assert [one.exitcode for one in stopped] == [200, 200, 200]


words = st.builds(
    reply,
    st.integers(1, 8),
    st.integers(0, 3),
    st.sampled_from([0, 200, 400, 500]),
    st.sampled_from([b"", REFUSAL, b"x"]),
)


@settings(max_examples=150)
@given(
    st.integers(0, len(HONEST) // 16).map(lambda count: HONEST[: 16 * count]),
    st.lists(words, max_size=4),
    st.lists(st.integers(0, 200), max_size=5),
)
def test_each_job_counts_once_whatever_is_said(honest: bytes, forged: list[bytes], at: list[int]) -> None:
    stopped, left = asyncio.run(first_batch(cut(honest + b"".join(forged), at)))
    seen = [one.id for one in stopped]
    if left is None:
        assert not seen, "a job was reported, and would be again with the others"
    else:
        assert sorted(seen + left) == IDS


class LateChild(ScriptedChild):
    """Has all its answers ready when it is killed for having none."""

    async def kill(self) -> None:
        if not self._ended.done():
            await self.speak(HONEST[16:])
        await super().kill()


async def late_batch() -> list[Stopped]:
    child, stopped = LateChild(), list[Stopped]()
    context = ProcessContext(child, ContextLimits(start_timeout_s=60.0), tenant="acme", flow=Flow(), memory_mb=64)
    await child.speak(HONEST[:16])
    with pytest.raises(ContextEndedError, match="did not answer within"):
        await context.run("acme-test", Handler("python", "x", timeout_s=0.01), jobs(*"abc"), stopped.extend)
    await context.close()
    return stopped


def test_an_answer_that_comes_while_the_context_is_ended_for_its_lack_does_not_count() -> None:
    assert asyncio.run(late_batch()) == []


async def after_its_end(*, loaded: bool) -> list[str] | None:
    """What was given back; None when the handler did not load."""
    child, stopped = ScriptedChild(), list[Stopped]()
    context = ProcessContext(child, ContextLimits(start_timeout_s=60.0), tenant="acme", flow=Flow(), memory_mb=64)
    if loaded:
        first = asyncio.create_task(context.run("acme-test", Handler("python", "x"), jobs("z"), stopped.extend))
        await child.speak(HONEST[:32] + reply(protocol.STOPPED, 0, 200) + reply(protocol.ENDED, 1))
        await first
    await context.close()
    others = [os.pipe2(os.O_NONBLOCK) for _ in range(6)]  # so that the numbers of its descriptors are taken again
    try:
        return await context.run("acme-test", Handler("python", "x"), jobs(*"abc"), stopped.extend)
    except ContextEndedError:
        return None
    finally:
        for read_fd, write_fd in others:
            with pytest.raises(BlockingIOError):
                os.read(read_fd, 1)
            os.close(read_fd)
            os.close(write_fd)


def test_a_context_that_was_closed_writes_to_nobody() -> None:
    assert asyncio.run(after_its_end(loaded=False)) is None
    assert asyncio.run(after_its_end(loaded=True)) == IDS[1:]


def test_another_version_of_the_protocol_is_named() -> None:
    async def greet() -> None:
        child = ScriptedChild()
        context = ProcessContext(child, ContextLimits(start_timeout_s=60.0), tenant="acme", flow=Flow(), memory_mb=64)
        saying = asyncio.create_task(child.say([reply(protocol.HELLO, 7)]))
        with pytest.raises(ContextEndedError, match="speaks version 7"):
            await context.hello()
        await saying

    asyncio.run(greet())


def test_a_batch_whose_handler_was_refused_is_not_heard_any_more() -> None:
    refused = reply(protocol.HELLO, protocol.VERSION) + reply(protocol.REFUSED, 0, 400, REFUSAL)
    stopped, left = asyncio.run(first_batch([refused + reply(protocol.STOPPED, 0, 200)]))
    assert (stopped, left) == ([], None)


class QuickChild(ScriptedChild):
    """It has ended before its replies are read."""

    async def wait(self) -> Exit:
        end = await super().wait()
        os.write(self._replies, HONEST)
        return end


async def test_a_context_whose_process_has_ended_is_usable_for_nobody_while_its_replies_are_taken_in() -> None:
    child, stopped = QuickChild(), list[Stopped]()
    context = ProcessContext(child, ContextLimits(start_timeout_s=60.0), tenant="acme", flow=Flow(), memory_mb=64)
    await child.kill()
    left = await context.run("acme-test", Handler("python", "x"), jobs(*"abc"), stopped.extend)
    is_usable = context.usable
    await context.close()
    assert ([one.exitcode for one in stopped], left) == ([200, 200, 200], [])
    assert not is_usable, "the next batch would lose a job to it"

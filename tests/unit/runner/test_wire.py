"""The pipes of a context: they hold more once there is much to carry."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.flow import Flow, FlowLimits
from runner.limits import ContextLimits
from runner.live_masker import LiveMasker
from runner.masking import Masker
from runner.protocol import ReplyRow
from runner.raw_log import RawLog
from runner.search_accounts import SearchAccounts
from runner.wire import Wire

AS_IT_COMES = 64 * 1024


class Swallow:
    """Parses nothing, and keeps nothing."""

    wrong = None
    held_bytes = 0
    missing_bytes = 1

    def __init__(self) -> None:
        self.fed = asyncio.Event()

    def feed(self, data: bytes) -> list[ReplyRow]:
        self.fed.set()
        return []


class Ends(SimpleNamespace):
    """Our ends of the three pipes, and the context's."""

    reader: int
    writer: int
    log_fd: int
    replies: int
    requests: int
    log: int

    def close(self) -> None: ...


@pytest.fixture
def ends() -> Iterator[Ends]:
    (reader, replies), (requests, writer), (log_fd, log) = pipes = [os.pipe() for _ in range(3)]
    for fd in (reader, writer, log_fd):
        os.set_blocking(fd, False)
    yield Ends(reader=reader, writer=writer, log_fd=log_fd, replies=replies, requests=requests, log=log)
    for pair in pipes:
        for fd in pair:
            os.close(fd)


def wire_of(ends: Ends, parser: Swallow, log: RawLog | None = None, flow: Flow | None = None) -> Wire:
    return Wire(
        cast("Any", ends),
        cast("Any", parser),
        log or RawLog(ContextLimits()),
        tenant="acme",
        flow=flow or Flow(),
        message_s=60.0,
        received=lambda _: None,
        lost=lambda _: None,
    )


def size_of(pipe: int) -> int:
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


@pytest.mark.parametrize(("sent_bytes", "is_wide"), [(1000, False), (50 * 1024, True)])
async def test_replies_that_fill_their_pipe_get_a_wider_one(ends: Ends, sent_bytes: int, is_wide: bool) -> None:
    parser = Swallow()
    wire = wire_of(ends, parser)
    assert size_of(ends.reader) == AS_IT_COMES
    await asyncio.to_thread(os.write, ends.replies, b"x" * sent_bytes)
    await parser.fed.wait()
    assert (size_of(ends.reader) > AS_IT_COMES) is is_wide
    assert size_of(ends.writer) == AS_IT_COMES
    wire.close()


@pytest.mark.parametrize(("sent_bytes", "is_wide"), [(1000, False), (70 * 1024, True)])
async def test_a_request_that_is_longer_than_its_pipe_gets_a_wider_one(
    ends: Ends, sent_bytes: int, is_wide: bool
) -> None:
    wire = wire_of(ends, Swallow())
    wire.send(b"x" * sent_bytes)
    assert (size_of(ends.writer) > AS_IT_COMES) is is_wide
    assert size_of(ends.reader) == AS_IT_COMES
    wire.close()


async def test_what_an_ended_context_left_is_read_once_while_somebody_goes_on_writing(ends: Ends) -> None:
    class Refilled(Swallow):
        """Whatever is read, as much comes again."""

        def __init__(self) -> None:
            super().__init__()
            self.read_bytes = 0

        def feed(self, data: bytes) -> list[ReplyRow]:
            self.read_bytes += len(data)
            assert self.read_bytes < 4 << 20
            os.write(ends.replies, data)
            return super().feed(data)

    parser = Refilled()
    wire = wire_of(ends, parser)
    os.set_blocking(ends.replies, False)
    os.write(ends.replies, b"x" * AS_IT_COMES)
    await wire.drain()
    wire.close()
    assert AS_IT_COMES <= parser.read_bytes <= (1 << 20) + AS_IT_COMES


async def test_of_what_a_context_prints_little_is_read_in_one_turn(ends: Ends) -> None:
    wire = wire_of(ends, Swallow())
    fed = list[int]()
    wire._log.feed = lambda data: fed.append(len(data))  # type: ignore[method-assign]
    fcntl.fcntl(ends.log, fcntl.F_SETPIPE_SZ, 1 << 20)  # as the context can do itself
    os.set_blocking(ends.log, False)
    os.write(ends.log, b"x" * (1 << 20))
    wire.drain_log()
    wire.close()
    assert sum(fed) == AS_IT_COMES


class Pieces(Swallow):
    """Keeps what came, and in which round of the loop."""

    def __init__(self, whole_bytes: int) -> None:
        super().__init__()
        self.rounds: list[list[bytes]] = [[]]
        self.begun, self.whole = asyncio.Event(), asyncio.Event()
        self._left_bytes = whole_bytes
        self._counting = asyncio.create_task(self._count())

    def feed(self, data: bytes) -> list[ReplyRow]:
        self.begun.set()
        self.rounds[-1].append(data)
        self._left_bytes -= len(data)
        if not self._left_bytes:
            self.whole.set()
        return []

    @property
    def came(self) -> bytes:
        return b"".join(piece for some in self.rounds for piece in some)

    async def _count(self) -> None:
        while True:
            self.rounds.append([])
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._counting.cancel()


def tiny_jobs(count: int) -> bytes:
    return b"".join(b"y|%06d" % number for number in range(count))


@pytest.fixture
def wide(ends: Ends) -> Ends:
    fcntl.fcntl(ends.replies, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.set_blocking(ends.replies, False)
    return ends


async def test_many_tiny_new_jobs_are_taken_in_piece_by_piece_and_in_their_order(wide: Ends) -> None:
    first, later = tiny_jobs(25_000), b"later"
    parser = Pieces(len(first + later))
    wire = wire_of(wide, parser)
    os.write(wide.replies, first)
    await parser.begun.wait()
    os.write(wide.replies, later)
    await parser.whole.wait()
    parser.stop()
    wire.close()
    assert parser.came == first + later
    assert max(len(b"".join(some)) for some in parser.rounds) <= 16 << 10


async def test_plain_replies_are_taken_in_as_they_are_read(wide: Ends) -> None:
    parser = Pieces(200_000)
    wire = wire_of(wide, parser)
    os.write(wide.replies, b"x" * 200_000)
    await parser.whole.wait()
    parser.stop()
    wire.close()
    assert [len(piece) for some in parser.rounds for piece in some] == [200_000]


async def test_what_waits_for_room_goes_on_when_there_is_some(wide: Ends) -> None:
    """Nothing more need come for that."""
    flow, text = Flow(FlowLimits(tenant_bytes=100)), tiny_jobs(25_000)
    parser = Pieces(len(text))
    wire = wire_of(wide, parser, flow=flow)
    os.write(wide.replies, text)
    await parser.begun.wait()
    flow.hold("acme", 1000)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(parser.came) < len(text)
    flow.release("acme", 1000)
    await parser.whole.wait()
    parser.stop()
    wire.close()
    assert parser.came == text


async def test_what_an_ended_context_left_is_taken_in_piece_by_piece(wide: Ends) -> None:
    text = tiny_jobs(100_000)
    parser = Pieces(len(text))
    wire = wire_of(wide, parser)
    os.write(wide.replies, text)
    await wire.drain()
    parser.stop()
    assert parser.came == text
    assert max(len(b"".join(some)) for some in parser.rounds) <= 16 << 10
    wire.close()


async def test_a_wire_that_is_closed_takes_in_no_rest(wide: Ends) -> None:
    text = tiny_jobs(25_000)
    parser = Pieces(len(text))
    wire = wire_of(wide, parser)
    os.write(wide.replies, text)
    await parser.begun.wait()
    wire.close()
    before = parser.came
    for _ in range(5):
        await asyncio.sleep(0)
    parser.stop()
    assert parser.came == before


class HeardLog(RawLog):
    """Says when it was fed."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(ContextLimits())
        self.masker = LiveMasker(Masker(["a" * size for size in range(8, 300)]), flow.searches, "acme")
        self.fed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        super().feed(data)
        self.fed.set()


async def test_a_log_that_is_dear_to_search_is_read_more_slowly(ends: Ends) -> None:
    """Its tenant has nothing left to search after a few of these. It is read again when that is paid off."""
    now_s = [0.0]
    accounts = SearchAccounts(lambda: now_s[0])
    flow = Flow(searches=accounts)
    log = HeardLog(flow)
    wire = wire_of(ends, Swallow(), log, flow)
    for _ in range(20):
        await asyncio.to_thread(os.write, ends.log, b"a" * 3000 + b"\n")
        await log.fed.wait()
        log.fed.clear()
        if accounts.wait_s("acme"):
            break
    assert 0 < accounts.wait_s("acme") < 1
    read_bytes = log.total_bytes
    await asyncio.to_thread(os.write, ends.log, b"more\n")
    for _ in range(10):
        await asyncio.sleep(0)
    assert log.total_bytes == read_bytes
    wire.drain_log()
    assert log.total_bytes == read_bytes + 5, "at the end of a job it is read in any case"
    await asyncio.to_thread(os.write, ends.log, b"again\n")
    log.fed.clear()
    now_s[0] = 100.0
    await asyncio.wait_for(log.fed.wait(), 30)
    assert log.total_bytes == read_bytes + 11
    wire.close()


async def test_a_wire_that_is_closed_looks_at_no_log_again(ends: Ends) -> None:
    flow = Flow(searches=SearchAccounts(lambda: 0.0))
    log = HeardLog(flow)
    flow.searches.take("acme", 25_000)
    wire = wire_of(ends, Swallow(), log, flow)
    await asyncio.to_thread(os.write, ends.log, b"text\n")
    for _ in range(10):
        await asyncio.sleep(0)
    resume = wire._log_resume
    wire.close()
    assert resume is not None
    assert resume.cancelled()
    assert not log.fed.is_set()


async def test_a_log_in_which_no_secret_is_looked_for_does_not_wait(ends: Ends) -> None:
    """Its handler has none, whatever others of the tenant do."""
    flow = Flow(searches=SearchAccounts(lambda: 0.0))
    flow.searches.take("acme", 1_000_000)
    log = HeardLog(flow)
    log.masker = None
    wire = wire_of(ends, Swallow(), log, flow)
    await asyncio.to_thread(os.write, ends.log, b"text\n")
    await asyncio.wait_for(log.fed.wait(), 30)
    wire.close()

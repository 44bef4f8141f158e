"""Any payload survives; any cut or flipped bit is noticed."""

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal import Journal, JournalOptions, Record
from tests.support.clocks import FakeClock
from tests.support.crash_disk import CrashDisk, Inode
from tests.support.inline import InlineExecutor

NASTY = [b"", b"\n", b"\r", b"\0", b"|", b"#:EndBatch\n", b"#:Batch date=", b"\xff\xfe", b"a,b=c", b"x" * 2000]
PAYLOADS = st.one_of(st.binary(max_size=300), st.text(max_size=100), st.sampled_from(NASTY))
JOBTYPES = st.from_regex(r"\A[a-z0-9][a-z0-9_]{0,31}-[A-Za-z0-9][A-Za-z0-9_.:-]{0,40}\Z")
ATTRIBUTES = st.dictionaries(st.sampled_from(["dt", "priority", "key"]), st.text(max_size=50), max_size=3)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of recoveries: their log lines would cost more than they do."""
    caplog.set_level(logging.CRITICAL, "journal")


def journal_on(disk: CrashDisk) -> Journal:
    options = JournalOptions(segment_bytes=8_000)
    return Journal(disk, "a7", options, clock=FakeClock(), make_executor=lambda _: InlineExecutor())


async def read_all(disk: CrashDisk) -> tuple[list[Record], int]:
    """The lines that can be read, and how often damage was met."""
    journal = journal_on(disk)
    await journal.open()
    records = []
    while reservation := await journal.read_reserve(7, 1e9):
        records += await journal.read(reservation)
    damages = journal.stats().damages + sum(not finding.is_damage for finding in journal.findings)
    await journal.close()
    return records, damages


def to_bytes(payload: bytes | str) -> bytes:
    return payload if isinstance(payload, bytes) else payload.encode("utf-8", "surrogatepass")


@given(st.lists(st.tuples(JOBTYPES, st.lists(PAYLOADS, min_size=1, max_size=8), ATTRIBUTES), max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_write_round_trips(writes: list[tuple[str, list[bytes | str], dict[str, str]]]) -> None:
    async def scenario() -> None:
        disk = CrashDisk()
        expected = []
        async with journal_on(disk) as journal:
            for jobtype, lines, attributes in writes:
                ids = await journal.write(jobtype, [to_bytes(line) for line in lines], attributes)
                expected += [(id_, jobtype, to_bytes(line), attributes) for id_, line in zip(ids, lines, strict=True)]
        records, damages = await read_all(disk)
        assert [(*record[:3], dict(record.attributes)) for record in records] == expected
        assert damages == 0

    asyncio.run(scenario())


@given(st.text(max_size=50))
@settings(deadline=None)
def test_text_with_lone_surrogates_comes_back_as_text(text: str) -> None:
    async def scenario() -> None:
        disk = CrashDisk()
        async with journal_on(disk) as journal:
            await journal.write("a-b", [text])
        assert [record.text for record in (await read_all(disk))[0]] == [text]

    asyncio.run(scenario())


def sample() -> tuple[bytes, list[Record]]:
    """A small segment, and the lines in it."""

    async def scenario() -> tuple[bytes, list[Record]]:
        disk = CrashDisk()
        async with journal_on(disk) as journal:
            await journal.write("acme-resize", ["one", "two"])
            await asyncio.gather(
                journal.write("acme-mail", [b"\xff"], {"key": "v"}), journal.write("b-c", ["#:EndBatch"])
            )
            await journal.write("acme-resize", ["last"])
        return disk.live_names["0000000001.journal"].durable, (await read_all(disk))[0]

    return asyncio.run(scenario())


def read_damaged(content: bytes) -> tuple[list[Record], int]:
    disk = CrashDisk()
    disk.live_names["0000000001.journal"] = Inode(durable=content, live=bytearray(content))
    return asyncio.run(read_all(disk))


@pytest.mark.slow
def test_a_segment_cut_at_every_byte_reads_a_prefix() -> None:
    content, lines = sample()
    for size in range(len(content)):
        found, _ = read_damaged(content[:size])
        assert found == lines[: len(found)], f"cut at {size}"
        assert len(found) < len(lines)


@pytest.mark.slow
def test_a_flipped_bit_is_noticed_and_invents_nothing() -> None:
    """One in three, so that every byte is hit, and every place in a byte."""
    content, lines = sample()
    for bit in range(0, len(content) * 8, 3):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        found, noticed = read_damaged(bytes(damaged))
        assert all(record in lines for record in found), f"bit {bit} invented a line"
        assert found == sorted(found), f"bit {bit} changed the order"
        assert noticed, f"bit {bit} went unnoticed"


WRITES = st.lists(
    st.tuples(st.sampled_from(["a-b", "a-c"]), st.lists(PAYLOADS, min_size=1, max_size=6)), min_size=1, max_size=5
)
STEPS = st.lists(WRITES | st.tuples(st.integers(1, 9), st.sampled_from(["rsync", "cancel"])), max_size=25)


@given(STEPS, st.sampled_from([0, 3_000, 1 << 20]))
@settings(max_examples=150, deadline=None)
def test_a_reader_gets_every_line_once_and_in_order_while_others_write(
    steps: list[list[tuple[str, list[bytes | str]]] | tuple[int, str]], recent_bytes: int
) -> None:
    """From memory, from disk, or from one after the other: over new segments and after lines that were given back."""

    async def scenario() -> None:
        options = JournalOptions(segment_bytes=4_000, recent_bytes=recent_bytes)
        written: list[tuple[str, bytes]] = []
        read: list[tuple[str, bytes]] = []
        journal = Journal(CrashDisk(), "a7", options, clock=FakeClock(), make_executor=lambda _: InlineExecutor())
        async with journal:

            async def take(max_lines: int, end: str) -> bool:
                reservation = await journal.read_reserve(max_lines, 1e9)
                if reservation is None:
                    return False
                records = await journal.read(reservation)
                assert len(records) <= max_lines
                if end == "cancel":
                    await journal.read_cancel(reservation)
                else:
                    read.extend((record.id, record.payload) for record in records)
                    await journal.rsync(reservation)
                return True

            for step in steps:
                if isinstance(step, tuple):
                    await take(*step)
                    continue
                lines = [[to_bytes(line) for line in payloads] for _, payloads in step]
                answers = await asyncio.gather(
                    *[journal.write(jobtype, each) for (jobtype, _), each in zip(step, lines, strict=True)]
                )
                for ids, each in zip(answers, lines, strict=True):
                    written += zip(ids, each, strict=True)
            while await take(5, "rsync"):
                pass
            assert read == written
            assert journal.stats().backlog_bytes == 0
            assert journal.stats().damages == 0

    asyncio.run(scenario())

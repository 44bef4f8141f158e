"""The proof of the journal's promise: over thousands of crashes, everything acknowledged is read back, nothing that
was never written appears, and recovery run again gives the same result.

A failure prints its seed; `run_scenario(seed)` replays it.
"""

import asyncio
import logging
import os
import random
from dataclasses import dataclass, field

import pytest

from journal import Journal, JournalError, JournalOptions, Record
from tests.support.clocks import FakeClock
from tests.support.crash_disk import CrashDisk
from tests.support.inline import InlineExecutor

STATES = int(os.environ.get("FUNCTORY_CRASH_STATES", "2000"))
STATES_PER_CRASH = 5
OPTIONS = JournalOptions(segment_bytes=6_000, max_group_bytes=8_000)


@dataclass
class History:
    """What a client outside the journal knows."""

    written: dict[str, bytes] = field(default_factory=dict)
    """Payloads handed to `write`, by a mark at their beginning."""
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    """Ids that a reader made durable elsewhere before it called rsync: the journal may forget them."""
    done: set[str] = field(default_factory=set)
    """Ids whose rsync returned: the journal must not bring them again."""


def journal_on(disk: CrashDisk) -> Journal:
    clock = FakeClock(1_800_000_000_000 + disk.random.randrange(-2, 2), tick_ms=1)  # each start finds another time
    return Journal(disk, "a7", OPTIONS, clock=clock, make_executor=lambda _: InlineExecutor())


async def use(disk: CrashDisk, history: History, rng: random.Random) -> None:
    """Write, read and sync until the crash, recording what was acknowledged."""
    journal = journal_on(disk)

    async def writer(number: int) -> None:
        for turn in range(rng.randrange(1, 6)):
            lines = []
            for line in range(rng.choice((1, 1, 1, 2, 7, 30))):
                mark = f"{len(history.written)}:{number}:{turn}:{line}:"
                lines.append(mark.encode() + rng.randbytes(rng.choice((0, 3, 80, 700))).replace(b"\n", b"|"))
                history.written[mark] = lines[-1]
            if rng.random() < 0.8:
                lines = [line.split(b":")[0] + b":plain text" for line in lines]
                history.written.update({line.decode(): line for line in lines})
            ids = await journal.write("acme-resize", lines, {"priority": "500"} if rng.random() < 0.3 else {})
            assert not history.acknowledged.keys() & set(ids), "an id was given out twice"
            history.acknowledged.update(zip(ids, lines, strict=True))

    async def reader() -> None:
        for _ in range(rng.randrange(0, 8)):
            reservation = await journal.read_reserve(rng.choice((1, 3, 20, 100)), 60)
            if reservation is None:
                await asyncio.sleep(0)
                continue
            records = await journal.read(reservation)
            if rng.random() < 0.7:
                history.stored.update(record.id for record in records)
                await journal.rsync(reservation)
                if reservation.span.end <= journal.read_point:  # otherwise a gap before it is still open
                    history.done.update(record.id for record in records)
            else:
                await journal.read_cancel(reservation)

    try:
        await journal.open()
        users = [writer(number) for number in range(rng.randrange(1, 5))]
        for ending in await asyncio.gather(*users, reader(), return_exceptions=True):
            if ending is not None and not isinstance(ending, JournalError):
                raise ending
        await journal.close()
    except JournalError:
        pass  # the crash; what was not acknowledged is nobody's promise


async def read_all(disk: CrashDisk) -> list[Record]:
    """All lines from the read position on, without moving it."""
    journal = journal_on(disk)
    await journal.open()
    records: list[Record] = []
    while reservation := await journal.read_reserve(50, 1e9):
        records += await journal.read(reservation)
    assert journal.stats().damages == 0, f"a crash was taken for damage: {journal.findings}"
    await journal.close()
    return records


def check(history: History, found: list[Record]) -> None:
    ids = [record.id for record in found]
    payloads = {record.id: record.payload for record in found}
    missing = history.acknowledged.keys() - history.stored - payloads.keys()
    assert not missing, f"lost after it was acknowledged: {sorted(missing)[:5]}"
    assert len(ids) == len(payloads), "a line came twice to one reader"
    for id_, payload in payloads.items():
        expected = history.acknowledged.get(id_)
        assert payload == expected or (expected is None and payload in history.written.values()), f"invented: {id_}"
    assert not (history.done & payloads.keys()), "came back although its rsync had returned"


async def run_scenario(seed: int, *, skip_file_sync: bool = False, skip_directory_sync: bool = False) -> None:
    """Use a journal up to a crash and look at several states of the disk: in each recover, now and then after a second
    crash in the middle of that, then recover again. Last, go on using it up to one more crash."""
    rng = random.Random(seed)
    history = History()
    disk = CrashDisk(
        seed,
        crash_at=rng.randrange(5, 160),
        skip_file_sync=skip_file_sync,
        skip_directory_sync=skip_directory_sync,
    )
    await use(disk, history, rng)
    for state in range(STATES_PER_CRASH):
        found = disk.after_crash(rng.randrange(1 << 30))
        if state % 2:
            found.crash_at = rng.randrange(1, 40)
            await recover_only(found)
            found = found.after_crash(rng.randrange(1 << 30))
        first = await read_all(found)
        check(history, first)
        assert await read_all(found) == first, "recovery run again gave another result"
    again = disk.after_crash(rng.randrange(1 << 30))
    again.crash_at = rng.randrange(30, 160)
    await use(again, history, rng)
    check(history, await read_all(again.after_crash(rng.randrange(1 << 30))))


async def recover_only(disk: CrashDisk) -> None:
    journal = journal_on(disk)
    try:
        await journal.open()
        await journal.close()
    except JournalError:
        pass


def scenario(seed: int, **skip: bool) -> None:
    try:
        asyncio.run(run_scenario(seed, **skip))
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of recoveries: their log lines would cost more than they do."""
    caplog.set_level(logging.CRITICAL, "journal")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_crash_state_recovers(part: int) -> None:
    scenarios = STATES // STATES_PER_CRASH
    for seed in range(part, scenarios, 8):
        scenario(seed)


def test_a_few_crash_states_recover() -> None:
    for seed in range(10_000_000, 10_000_040):
        scenario(seed)


@pytest.mark.parametrize("seed", range(20))
async def test_what_was_read_and_removed_is_not_missed_after_a_crash(seed: int) -> None:
    """Also if the cursor is not synced each time, because the store keeps the position."""
    disk = CrashDisk(seed)
    options = JournalOptions(segment_bytes=600, sync_cursor=False)
    journal = Journal(disk, "a7", options, clock=FakeClock(tick_ms=1), make_executor=lambda _: InlineExecutor())
    await journal.open()
    for _ in range(4):
        await journal.write("acme-resize", ["x" * 200])
    for _ in range(3):
        reservation = await journal.read_reserve(1, 60)
        assert reservation is not None
        await journal.read(reservation)
        await journal.rsync(reservation)
    await read_all(disk.after_crash(seed))
    await journal.close()


@pytest.mark.parametrize("omitted", ["skip_file_sync", "skip_directory_sync"])
def test_the_model_catches_a_missing_sync(omitted: str) -> None:
    caught = []
    for seed in range(60):
        try:
            scenario(seed, **{omitted: True})
        except AssertionError as error:
            caught.append(str(error))
    assert any("lost after it was acknowledged" in message for message in caught)

"""Deleted jobs whose lines a daemon may read again: the store is told which these are, and keeps their ids."""

import asyncio
from pathlib import Path

import pytest

import functory.intake.journal_reader
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.passed_lines import PassedLines
from functory.operations.bulk import delete_jobs
from functory.operations.job_changes import delete_job
from journal import Journal
from store.base import Archive, Code, JobFilter, JobState, JournalPosition, NewJob, Outcome
from store.errors import StoreUnavailable
from store.values.transfer import DeletedRecord, Part
from tests.support.clocks import LeapingClock
from tests.support.deleted_worker import WHO, has_ended
from tests.support.service import register, running_daemon, until


@pytest.fixture(autouse=True)
def _nothing_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functory.intake.journal_reader, "_KEEP_AFTER_S", 3600.0)


async def kept_ids(daemon: Daemon) -> list[str]:
    records = (await daemon.store.export(Part.DELETED)).records
    return [record.id for record in records if isinstance(record, DeletedRecord)]


async def position(daemon: Daemon, reader: str = "") -> JournalPosition:
    found = await daemon.store.get_journal_position(reader or daemon.intake.reader)
    assert found is not None
    return found


async def end_of_a_line(daemon: Daemon) -> str:
    """The id of a job that was posted and has ended."""
    await register(daemon, "acme-x", "return payload")
    (job_id,) = await daemon.intake.write("acme-x", [b"1"])
    await until(lambda: has_ended(daemon, job_id))
    return job_id


async def end_of_another(daemon: Daemon) -> str:
    """The id of a job that was no line."""
    (job_id,) = daemon.journal.take_ids(1)
    now_ms = daemon.clock.now_ms()
    end = Archive(job_id, 1, Outcome(Code.OK, 200, now_ms))
    await daemon.store.add_ended_jobs(
        daemon.sysid, [NewJob(job_id, "acme-x", b"", now_ms, now_ms)], [end], now_ms=now_ms
    )
    return job_id


@pytest.mark.parametrize("many", [False, True])
async def test_its_id_stays_until_the_line_is_passed(tmp_path: Path, *, many: bool) -> None:
    async with running_daemon(tmp_path, poll="1h") as daemon:
        job_id = await end_of_a_line(daemon)
        if many:
            where = JobFilter(JobState.ARCHIVED)
            report = await delete_jobs(service_of(daemon), WHO, "x", where, limit=10, dry_run=False)
            assert report.changed == 1
        else:
            assert await delete_job(service_of(daemon), WHO, job_id) == 1
        assert await kept_ids(daemon) == [job_id]
        await daemon.upkeep.purge()
        assert await kept_ids(daemon) == []
        assert (await position(daemon)).passed >= job_id


async def test_nothing_stays_of_what_was_passed_before(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, poll="1h") as daemon:
        line, other = await end_of_a_line(daemon), await end_of_another(daemon)
        await daemon.upkeep.purge()
        for job_id in (line, other):
            await delete_job(service_of(daemon), WHO, job_id)
        assert await kept_ids(daemon) == []


async def test_a_position_that_has_not_changed_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path, poll="1h") as daemon:
        await end_of_a_line(daemon)
        await daemon.upkeep.purge()

        async def refuse(*_: object, **__: object) -> None:
            raise AssertionError("nothing to write")

        monkeypatch.setattr(daemon.store, "add_jobs", refuse)
        await daemon.intake.keep_position()


async def test_nothing_is_passed_while_a_line_is_being_written(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, poll="1h") as daemon:
        job_id = await end_of_a_line(daemon)
        assert (daemon.journal.passed_id or "") >= job_id
        writing = asyncio.create_task(daemon.intake.write("acme-x", [b"2"]))
        await asyncio.sleep(0)
        assert daemon.journal.passed_id is None
        (later,) = await writing
        await until(lambda: has_ended(daemon, later))


async def test_the_store_knows_whose_ids_a_journal_has(tmp_path: Path) -> None:
    """Of the daemon that is gone until its lines were read, too."""
    async with running_daemon(tmp_path, poll="1h") as first:
        await end_of_a_line(first)
        assert (await position(first)).sources == (first.sysid,)
    daemon = Daemon(first.settings)
    await daemon.open()
    assert (await position(daemon)).sources == (first.sysid, daemon.sysid)
    await daemon.close()
    async with running_daemon(tmp_path, poll="1h") as third:
        assert (await position(third)).sources == (first.sysid, daemon.sysid, third.sysid)
        await third.intake.flush()
        assert (await position(third)).sources == (third.sysid,)


async def test_earlier_daemons_of_a_journal_are_known_until_their_last_line_was_read(tmp_path: Path) -> None:
    async with Journal(tmp_path, "a") as journal:
        olds = [await journal.write("acme-x", [text]) for text in ("1", "2")]
    async with Journal(tmp_path, "b") as journal:
        lines = PassedLines(journal, "reader", "b", lambda: ("a", "b"))
        seen = []
        for (job_id,) in [*olds, await journal.write("acme-x", ["3"])]:
            reservation = await journal.read_reserve(1, 60)
            assert reservation is not None
            await journal.read(reservation)
            lines.read(reservation.span, job_id)
            await journal.rsync(reservation)
            at = lines.at(journal.read_point)
            assert at.passed == job_id
            seen.append(at.sources)
    assert seen == [("a", "b"), ("a", "b"), ("b",)]


async def test_a_journal_that_was_left_has_none_when_it_was_read(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, poll="1h", journal="journal-1") as other:
        await end_of_a_line(other)
    async with Journal(tmp_path / "journal-1", other.sysid) as left:
        (job_id,) = await left.write("acme-x", ["1"])
    async with running_daemon(tmp_path, poll="1h") as daemon:
        identity = await asyncio.to_thread((tmp_path / "journal-1" / "identity").read_text)
        await until(lambda: has_ended(daemon, job_id))
        await until(lambda: passes(daemon, identity, job_id))
        assert (await position(daemon, identity)).sources == ()
        await delete_job(service_of(daemon), WHO, job_id)
        assert await kept_ids(daemon) == []


async def passes(daemon: Daemon, reader: str, job_id: str) -> bool:
    return (await position(daemon, reader)).passed >= job_id


async def test_lines_that_the_store_did_not_take_are_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, poll="1h", straight="off") as daemon:
        before = await end_of_a_line(daemon)
        await daemon.intake.flush()
        add_jobs, refused = daemon.store.add_jobs, asyncio.Event()

        async def refuse(jobs: list[NewJob], **more: object) -> object:
            if jobs:
                refused.set()
                raise StoreUnavailable("it is away")
            return await add_jobs(jobs, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(daemon.store, "add_jobs", refuse)
        (job_id,) = await daemon.intake.write("acme-x", [b"2"])
        await refused.wait()
        await daemon.intake.keep_position()
        assert before <= (await position(daemon)).passed < job_id
        monkeypatch.setattr(daemon.store, "add_jobs", add_jobs)
        await until(lambda: has_ended(daemon, job_id))


async def test_lines_after_a_clock_was_set_back_are_passed_one_by_one(tmp_path: Path) -> None:
    """What an earlier life passed has greater ids than they: that says nothing of them."""
    clock = LeapingClock()
    async with running_daemon(tmp_path, clock, poll="1h") as first:
        await end_of_a_line(first)
        clock.ahead_ms = 3_600_000
        await end_of_another(first)
        await first.upkeep.purge()
        passed = (await position(first)).passed
    async with running_daemon(tmp_path, poll="1h") as daemon:
        job_id = await end_of_a_line(daemon)
        assert job_id < passed
        await delete_job(service_of(daemon), WHO, job_id)
        assert await kept_ids(daemon) == [job_id]
        await daemon.upkeep.purge()
        there = await position(daemon)
        assert (int(there.segment), there.offset, there.line) == daemon.journal.read_point
        assert await kept_ids(daemon) == []
    async with running_daemon(tmp_path, poll="1h") as last:
        await last.intake.flush()
        assert await last.store.get_job("acme", job_id, now_ms=last.clock.now_ms()) is None


async def test_a_life_that_never_had_the_store_is_known_by_its_lines(tmp_path: Path) -> None:
    """It wrote under the sysid that was kept for such a start, and the store never heard of it."""
    async with running_daemon(tmp_path, poll="1h") as first:
        await end_of_a_line(first)
    async with Journal(tmp_path / "journal", "spare") as journal:
        (job_id,) = await journal.write("acme-x", ["1"])
    daemon = Daemon(first.settings)
    await daemon.open()
    assert set((await position(daemon)).sources) == {first.sysid, "spare", daemon.sysid}
    now_ms = daemon.clock.now_ms()
    await daemon.store.add_jobs([NewJob(job_id, "acme-x", b"", now_ms, now_ms)], now_ms=now_ms)  # and not its position
    await delete_job(service_of(daemon), WHO, job_id)
    assert await kept_ids(daemon) == [job_id], "its line will be read again"
    await daemon.close()

"""The calls that durability stands on, as the kernel saw them: written, synced, named, and only then acknowledged.

The crash model runs on a disk of its own; this is the test that fails when the real disk is not asked to sync.
"""

import asyncio
import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from functory.transfer.backup import make_backup
from journal import Journal
from store.base import Tenant
from store.url import open_store
from tests.support.daemon_process import daemon, make_tenant
from tests.support.durable_programs import SMALL, settings_of
from tests.support.jobs import JOBTYPE, T0, TENANT, new_jobs
from tests.support.syscalls import Call, Disk, read_trace, trace, trace_command

MAPPED = r"-shm$|/lock$"
"""Neither has to outlive a crash: the index of the WAL is made anew from it, and a lock ends with its process."""
SEGMENT = re.compile(r"/(\d{10})\.journal$")
FIRST_SCHEMA = Path(__file__).parents[1] / "data" / "store-schema-1.db.gz"

Look = Callable[[Call], None]


async def run(program: str, folder: Path, make_look: Callable[[Disk], Look]) -> list[Call]:
    """Run a program of `durable_programs` on the folder and look at each of its calls."""
    disk = await asyncio.to_thread(Disk, folder)
    calls = await asyncio.to_thread(trace, "tests.support.durable_programs", program, folder, log=folder.parent / "log")
    disk.replay(calls, make_look(disk))
    return calls


def marks(calls: list[Call], word: str) -> int:
    return sum(call.name == "mark" and call.new == word and not call.has_ended for call in calls)


def removed_segments(calls: list[Call]) -> list[int]:
    gone = [call for call in calls if call.name.startswith("unlink") and call.has_ended and call.is_good]
    return [int(match[1]) for call in gone if (match := SEGMENT.search(call.path))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.mkdir()
    return path


class Cursor:
    """The read position that was written last, and how long each segment is."""

    def __init__(self) -> None:
        self.position = (0, 0)
        self.sizes: dict[int, int] = {}

    @staticmethod
    def written(call: Call) -> tuple[int, int] | None:
        """The position that a call writes, if it writes one."""
        is_cursor = call.name == "pwrite64" and call.path.endswith("/cursor")
        found = re.search(r"segment=(\d+),offset=(\d+)", call.data) if is_cursor else None
        return (int(found[1]), int(found[2])) if found else None

    @property
    def end(self) -> tuple[int, int]:
        """Of all lines."""
        return max(self.sizes.items(), default=(0, 0))

    def follow(self, call: Call) -> None:
        if call.name != "pwrite64":
            return
        if position := self.written(call):
            self.position = position
        elif match := SEGMENT.search(call.path):
            size, offset = map(int, call.flags.split()[-2:])
            self.sizes[int(match[1])] = offset + size

    def is_past(self, number: int) -> bool:
        return self.position >= (number, self.sizes[number])


async def test_a_line_is_acknowledged_when_it_is_on_the_disk(folder: Path) -> None:
    cursor = Cursor()

    def make_look(disk: Disk) -> Look:
        def look(call: Call) -> None:
            if call.name == "mark":
                assert disk.unsafe(ignore=MAPPED) == [], f"at {call.new}"
            elif SEGMENT.search(call.path) and '"#:Batch' in call.data:
                assert disk.unsafe(ignore=MAPPED) == [], f"a line goes to {call.path}, which is not safe itself"
            elif call.name.startswith("unlink") and (match := SEGMENT.search(call.path)):
                assert cursor.is_past(int(match[1])), "a segment goes before the position is past it"
                assert disk.unsafe(ignore=MAPPED) == [], "a segment goes before the position is kept"
            cursor.follow(call)

        return look

    calls = await run("journal", folder, make_look)
    assert marks(calls, "acknowledged") == 20
    assert marks(calls, "read") > 5
    assert len(removed_segments(calls)) > 3


async def test_a_line_leaves_the_journal_when_it_is_safe_in_the_store(folder: Path) -> None:
    """The store keeps the position here, so the journal's own need not be synced: it is never ahead."""
    cursor = Cursor()
    commits = 0
    committing = safe = (0, 0)  # how far the lines are in the commit under way, and in those that are over

    def make_look(disk: Disk) -> Look:
        def look(call: Call) -> None:
            nonlocal commits, committing, safe
            if not disk.unsafe(folder / "store.db-wal"):
                safe = committing
            if call.name == "mark":
                assert disk.unsafe(ignore=MAPPED + "|/cursor$") == [], f"at {call.new}"
                commits = 0 if call.new == "acknowledged" else commits
            elif call.path.endswith("-wal") and call.name == "fdatasync":
                commits += 1
                committing = cursor.end
                assert not disk.unsafe(folder / "rejected.jsonl"), "the store goes past a line that is nowhere safe"
            elif position := cursor.written(call):
                assert position <= safe, "the position is kept before the jobs are safe"
            elif call.name.startswith("unlink") and (match := SEGMENT.search(call.path)):
                assert commits, "a segment goes before its lines are in the store"
                assert cursor.is_past(int(match[1])), "a segment goes before the position is past it"
            cursor.follow(call)

        return look

    calls = await run("intake", folder, make_look)
    assert marks(calls, "flushed") == 20
    assert len(removed_segments(calls)) > 3


async def test_what_recovery_cuts_off_is_kept_first(folder: Path) -> None:
    async with Journal(folder / "journal", "a1", SMALL) as journal:
        await journal.write(JOBTYPE, ["good"])
    (segment,) = await asyncio.to_thread(lambda: list(folder.glob("journal/*.journal")))

    def tear() -> None:
        with segment.open("ab") as file:
            file.write(b"#:Batch torn\n" * 100)

    await asyncio.to_thread(tear)
    cuts = 0

    def make_look(disk: Disk) -> Look:
        def look(call: Call) -> None:
            nonlocal cuts
            if call.name == "ftruncate" and call.path == str(segment):
                cuts += 1
                assert disk.unsafe(ignore=MAPPED) == []
            elif call.name == "mark":
                assert disk.unsafe(ignore=MAPPED) == []

        return look

    await run("recovery", folder, make_look)
    assert cuts == 1
    assert await asyncio.to_thread(lambda: list(folder.glob("journal/*.torn-*")))


async def test_a_write_of_the_store_is_acknowledged_when_it_is_on_the_disk(folder: Path) -> None:
    def make_look(disk: Disk) -> Look:
        def look(call: Call) -> None:
            if call.name == "mark":
                assert disk.unsafe(ignore=MAPPED) == [], f"at {call.new}"
            elif call.name.startswith("unlink") and call.path.endswith("store.db-wal"):
                assert not disk.unsafe(folder / "store.db"), "the WAL goes before its pages are safe in the file"

        return look

    calls = await run("store", folder, make_look)
    assert marks(calls, "acknowledged") == 4


async def test_a_store_is_copied_before_it_is_migrated(folder: Path) -> None:
    packed = await asyncio.to_thread(FIRST_SCHEMA.read_bytes)
    await asyncio.to_thread((folder / "store.db").write_bytes, gzip.decompress(packed))
    changes = 0

    def make_look(disk: Disk) -> Look:
        copied = False

        def look(call: Call) -> None:
            nonlocal copied, changes
            copied |= call.name.startswith("rename") and call.new.endswith("store.db.schema-1")
            if call.name == "pwrite64" and call.path.endswith("store.db-wal"):
                changes += 1
                assert copied, "the migration begins before there is a copy"
                assert disk.unsafe(ignore=MAPPED + "|store.db-wal$") == [], (
                    "the migration begins before the copy is safe"
                )

        return look

    await run("migrate", folder, make_look)
    assert changes


async def fill_data_dir(folder: Path) -> None:
    """A journal with lines, a store with jobs, a key; the store beside the data directory."""
    settings = settings_of(folder)
    async with Journal(settings.journal_dir, "a1", SMALL) as journal:
        for _ in range(10):
            await journal.write(JOBTYPE, ["x" * 1500])
    await asyncio.to_thread((settings.journal_dir / "identity").write_text, "reader")
    await asyncio.to_thread((settings.data_dir / "operator.key").write_text, "fk_secret\n")
    async with open_store(settings.store_url) as store:
        await store.create_tenant(Tenant(TENANT, T0))
        await store.add_jobs(new_jobs(50), now_ms=T0)


async def test_a_backup_is_named_when_all_of_it_is_on_the_disk(folder: Path) -> None:
    await fill_data_dir(folder)
    unfinished = folder / "backup.unfinished"
    journals_end = store_begins = named = 0

    def make_look(disk: Disk) -> Look:
        number = 0

        def look(call: Call) -> None:
            nonlocal number, journals_end, store_begins, named
            number += 1
            if call.path.startswith(str(unfinished / "journals")):
                journals_end = number if call.name == "pwrite64" else journals_end
            elif call.name == "openat" and call.path == str(folder / "store.db"):
                store_begins = store_begins or number
            elif call.name.startswith("rename") and call.path == str(unfinished):
                named += 1
                assert disk.unsafe(unfinished, ignore=MAPPED) == []
            elif call.name == "mark":
                assert disk.unsafe(ignore=MAPPED) == []

        return look

    calls = await run("backup", folder, make_look)
    assert marks(calls, "backed up") == named == 1
    assert 0 < journals_end < store_begins, "the store is copied before the journals"


@pytest.mark.parametrize("is_fresh", [True, False])
async def test_a_restore_lets_daemons_in_when_all_of_it_is_on_the_disk(folder: Path, is_fresh: bool) -> None:
    await fill_data_dir(folder)
    settings = settings_of(folder)
    await make_backup(settings, folder / "backup", now_ms=T0)
    if is_fresh:
        await asyncio.to_thread(settings.data_dir.parent.rename, folder / "gone")
        await asyncio.to_thread((folder / "store.db").unlink)
    stage = str(settings.data_dir / ".restoring")
    moved = opened = 0

    def make_look(disk: Disk) -> Look:
        def look(call: Call) -> None:
            nonlocal moved, opened
            if call.name.startswith("rename") or "/replaced-" in call.path:
                moved += 1
                assert f"{settings.data_dir}/" not in disk.unsafe() or moved > 1, "daemons are not kept away for sure"
            elif call.name == "unlinkat" and call.path.startswith(stage) and moved:
                opened += 1
                assert disk.unsafe(ignore=MAPPED + r"|/\.restoring/") == []
            elif call.name == "mark":
                assert disk.unsafe(ignore=MAPPED) == []

        return look

    calls = await run("restore", folder, make_look)
    assert marks(calls, "restored") == 1
    assert moved > 2
    assert opened


@pytest.mark.slow
async def test_a_job_is_accepted_over_http_when_it_is_on_the_disk(tmp_path: Path) -> None:
    """The first promise of the README, from the tenant's request to the answer."""
    log, data_dir = tmp_path / "log", tmp_path / "data"
    disk = await asyncio.to_thread(Disk, tmp_path)
    prefix = await asyncio.to_thread(trace_command, log)
    async with daemon(data_dir, prefix=prefix, role="api") as server:
        async with await make_tenant(server, TENANT) as client:
            for number in range(5):
                await client.add_jobs("x", [f"canary-{number}"])
        assert await server.stop() == 0
    written: set[str] = set()
    answers = 0

    def look(call: Call) -> None:
        nonlocal answers
        if SEGMENT.search(call.path) and (found := re.search(r"canary-\d", call.data)):
            written.add(found[0])
        elif call.name in {"sendto", "sendmsg", "write", "writev"} and "HTTP/1.1 2" in call.data and written:
            answers += 1
            assert disk.unsafe(data_dir / "journal", ignore=MAPPED + "|/cursor$") == []
            assert f"{data_dir}/" not in disk.unsafe(), "the journal's folder has no safe name"
            assert f"{tmp_path}/" not in disk.unsafe(), "the data directory has no safe name"

    disk.replay(await asyncio.to_thread(read_trace, log), look)
    assert len(written) == answers == 5

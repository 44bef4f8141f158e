"""functory.queue: queues of several stores in one folder. Each has the lines that were written for its own store."""

import asyncio
from pathlib import Path

import pytest

from functory.daemon.service import service_of
from functory.operations.tenants import create_tenant
from functory.queue import Queue, open_queue
from functory.queue.in_process import InProcessLink, _open_daemon
from functory.tenant_limits import TenantLimits
from journal import Journal
from tests.support.service import register, running_daemon, until


async def leave(journal: Path, payload: bytes, jobtype: str = "main-resize") -> None:
    """As a process that is killed when `add` has returned."""
    async with Journal(journal, "zz") as opened:
        await opened.write(jobtype, [payload])


async def waiting_in(queue: Queue) -> int:
    """How many jobs its store has, when it has looked for lines that others left."""
    link = queue._link
    assert isinstance(link, InProcessLink)
    await link._daemon.intake.flush()
    await link._daemon.left_journals.look()
    assert link._daemon.left_journals.trouble == ""
    rows = await link._daemon.store.get_counters("main", now_ms=link._daemon.clock.now_ms())
    return sum(row.waiting for row in rows)


async def has_waiting(queue: Queue, jobs: int) -> bool:
    return await waiting_in(queue) == jobs


def place_of(queue: Queue) -> str:
    link = queue._link
    assert isinstance(link, InProcessLink)
    return link._daemon.settings.data_dir.name


@pytest.mark.parametrize("others", [1, 2])
async def test_a_queue_leaves_the_lines_of_another_store_alone(tmp_path: Path, others: int) -> None:
    """Whether it would get the folder in which they are, or find them beside its own."""
    one, two, folder = f"sqlite://{tmp_path}/one.db", f"sqlite://{tmp_path}/two.db", tmp_path / "shared"
    async with open_queue(one, folder=folder) as first:
        await first.register("resize")
        async with open_queue(one, folder=folder) as second:
            assert (place_of(first), place_of(second)) == ("0", "1")
    await leave(folder / str(others - 1) / "journal", b"of one")
    for _ in range(2):  # the second time it finds a folder of its own
        async with open_queue(two, folder=folder) as queue:
            await queue.register("resize")
            assert await waiting_in(queue) == 0
            assert place_of(queue) == "2"
    async with open_queue(one, folder=folder) as queue:
        await until(lambda: has_waiting(queue, 1))
        assert place_of(queue) == "0"


async def test_the_data_of_a_daemon_beside_is_not_read(tmp_path: Path) -> None:
    """Whatever its folder is named."""
    for name in ("functory-data", "7"):
        async with running_daemon(tmp_path / name, role="api") as daemon:
            await register(daemon, "main-resize", "return payload")
        await leave(tmp_path / name / "journal", b"of the daemon")
    async with open_queue(f"sqlite://{tmp_path}/app.db", folder=tmp_path) as queue:
        await queue.register("resize")
        assert await waiting_in(queue) == 0
    for name in ("functory-data", "7"):
        async with running_daemon(tmp_path / name, role="api") as daemon:
            await daemon.intake.flush()
            rows = await daemon.store.get_counters("main", now_ms=daemon.clock.now_ms())
            assert sum(row.waiting for row in rows) == 1


async def test_a_store_with_another_url_has_the_lines_that_were_written_for_it(tmp_path: Path) -> None:
    """Another password, say, or its file was moved."""
    folder = tmp_path / "shared"
    async with open_queue(f"sqlite://{tmp_path}/one.db", folder=folder) as queue:
        await queue.add("resize", "0")
        await until(lambda: has_waiting(queue, 1))
    await leave(folder / "0" / "journal", b"1")
    await asyncio.to_thread((tmp_path / "one.db").rename, tmp_path / "moved.db")
    async with open_queue(f"sqlite://{tmp_path}/moved.db", folder=folder) as queue:
        await until(lambda: has_waiting(queue, 2))


async def test_a_store_with_another_url_has_the_first_line_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """It read none of its journal."""
    folder = tmp_path / "shared"
    killed = await _open_daemon(f"sqlite://{tmp_path}/one.db", folder, {})
    await create_tenant(service_of(killed), "test", "main", 1, TenantLimits())
    await killed.journal.write("main-resize", [b"0"])
    await killed.close()
    await asyncio.to_thread((tmp_path / "one.db").rename, tmp_path / "moved.db")
    async with open_queue(f"sqlite://{tmp_path}/moved.db", folder=folder) as queue:
        await until(lambda: has_waiting(queue, 1))
        assert place_of(queue) == "0"

"""A daemon starts while its store is away: it takes jobs in, and joins when the store comes."""

import asyncio
import json
import os
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest

from functory.config import load_config
from functory.daemon import joining, server
from functory.daemon.daemon import Daemon
from functory.daemon.server import Server
from functory.errors import DaemonFailed
from journal.durable import make_folder
from store.base import Code, NewJob
from store.errors import StoreUnavailable
from store.sqlite import SqliteStore
from store.sqlite.file import connection, writer
from store.url import open_store
from tests.support.daemon_process import free_port
from tests.support.mongo_server import shared_server
from tests.support.served_daemon import Client, Reply
from tests.support.service import QUICK, ended, register, running_daemon, until
from tests.support.stores import mongo_database


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (joining, server):
        monkeypatch.setattr(module, "_AGAIN_S", 0.01)


def sqlite_url(folder: Path) -> str:
    return f"sqlite://{folder}/mount/store.db"


async def unmount(folder: Path) -> None:
    await asyncio.to_thread((folder / "mount").rename, folder / "elsewhere")


async def mount(folder: Path) -> None:
    await asyncio.to_thread((folder / "elsewhere").rename, folder / "mount")


async def live_once(folder: Path, url: str, keep: str = "all") -> str:
    """A life with the store, in which a job runs; returns its sysid."""
    await asyncio.to_thread((folder / "mount").mkdir, exist_ok=True)
    async with running_daemon(folder / "data", store=url) as daemon:
        await register(daemon, "acme-x", "return payload", keep=keep)
        (job_id,) = await daemon.intake.write("acme-x", [b"before"])
        await daemon.intake.flush()
        await daemon.waiters.wait(job_id, 1.0)
        await until(lambda: has_ended(daemon, 1))
        await daemon._parts.joining.keep_spare()
        return daemon.sysid


async def has_ended(daemon: Daemon, jobs: int) -> bool:
    counters = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
    return sum(row.ok for row in counters) >= jobs


async def has_joined(daemon: Daemon) -> bool:
    return not daemon.is_away


async def take_in_and_join(daemon: Daemon, come: Callable[[], Awaitable[None]]) -> None:
    """Without the store jobs are taken in; with it they run, once each."""
    assert "store" in daemon.health().problems
    assert daemon.health().is_ready, "it takes jobs in"
    ids = await daemon.intake.write("acme-x", [b"1", b"2", b"3"])
    with pytest.raises(StoreUnavailable):
        await daemon.intake.flush()
    with pytest.raises(StoreUnavailable):
        await daemon.store.get_job("acme", ids[0], now_ms=daemon.clock.now_ms())
    await come()
    await until(lambda: has_joined(daemon))
    records = [await ended(daemon, job_id) for job_id in ids]
    assert [(record.job.attempts, record.outcome and record.outcome.code) for record in records] == [(1, Code.OK)] * 3
    assert "store" not in daemon.health().problems
    alive = await daemon.store.list_daemons(now_ms=daemon.clock.now_ms())
    assert [each.sysid for each in alive] == [daemon.sysid]


async def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    first = await live_once(tmp_path, sqlite_url(tmp_path))
    await unmount(tmp_path)
    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as daemon:
        unjoined = daemon.sysid
        (early,) = await daemon.intake.write("acme-x", [b"in a life that never joins"])
    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as daemon:
        assert daemon.sysid == unjoined != first, "the spare is of this folder until it joins"
        await take_in_and_join(daemon, lambda: mount(tmp_path))
        assert (await ended(daemon, early)).job.attempts == 1
        await daemon._parts.joining.keep_spare()
        spare = await asyncio.to_thread((tmp_path / "data" / "journal.spare").read_text)
        assert spare.split()[0] not in {first, unjoined}, "no sysid serves two lives that had the store"


async def test_what_the_store_has_read_is_not_read_again(tmp_path: Path) -> None:
    """The journal's own position is lost, and nothing is kept of the job: only the store knows that it has run."""
    await live_once(tmp_path, sqlite_url(tmp_path), keep="none")
    await asyncio.to_thread((tmp_path / "data" / "journal" / "cursor").unlink)
    await unmount(tmp_path)
    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as daemon:
        await daemon.intake.write("acme-x", [b"after"])
        await mount(tmp_path)
        await until(lambda: has_ended_after(daemon))
        (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
    assert row.ok == 2


async def has_ended_after(daemon: Daemon) -> bool:
    if daemon.is_away or not await has_ended(daemon, 2):
        return False
    await daemon.intake.flush()
    (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
    return row.waiting + row.running == 0


async def test_a_file_that_somebody_has_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (connection, writer):
        monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", 20)
    await live_once(tmp_path, sqlite_url(tmp_path))
    holder = apsw.Connection(str(tmp_path / "mount" / "store.db"))
    holder.execute("BEGIN IMMEDIATE")

    async def let_go() -> None:
        holder.execute("ROLLBACK")
        holder.close()

    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as daemon:
        await take_in_and_join(daemon, let_go)


@pytest.mark.slow
async def test_a_server_that_comes_later(tmp_path: Path) -> None:
    async with mongo_database(tmp_path) as direct:
        upstream, port = urlsplit(shared_server().url), free_port()
        assert upstream.hostname
        address = (upstream.hostname, upstream.port or 27017)
        url = direct.replace(f"{address[0]}:{address[1]}", f"127.0.0.1:{port}")
        url += f"{'' if url.endswith('?') else '&'}serverSelectionTimeoutMS=200"
        async with relay(port, *address):
            await live_once(tmp_path, url)
        opened: list[asyncio.Server] = []

        async def come() -> None:
            opened.append(await asyncio.start_server(lambda r, w: pass_on(r, w, *address), "127.0.0.1", port))

        async with running_daemon(tmp_path / "data", store=url) as daemon:
            await take_in_and_join(daemon, come)
        opened[0].close()


@asynccontextmanager
async def relay(port: int, host: str, upstream: int) -> AsyncIterator[None]:
    listening = await asyncio.start_server(lambda r, w: pass_on(r, w, host, upstream), "127.0.0.1", port)
    yield
    listening.close()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    there, back = await asyncio.open_connection(host, port)

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
        finally:
            target.close()

    await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)


async def test_a_spare_that_the_store_has_forgotten(tmp_path: Path) -> None:
    """It cannot be held again, so this life ends, and the next one gets another sysid."""
    await live_once(tmp_path, sqlite_url(tmp_path))
    async with open_store(sqlite_url(tmp_path)) as store:
        await store.forget_daemons(skip=0)
    await unmount(tmp_path)
    config = load_config({"data_dir": str(tmp_path / "data"), "store": sqlite_url(tmp_path), **QUICK}, {})
    daemon = Daemon(config.settings)
    await daemon.open()
    (job_id,) = await daemon.intake.write("acme-x", [b"1"])
    await mount(tmp_path)
    with pytest.raises(DaemonFailed, match="does not know the sysid"):
        await daemon.run()
    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as successor:
        assert (await ended(successor, job_id)).job.attempts == 1
        assert successor.sysid != daemon.sysid


# With HTTP in front


@asynccontextmanager
async def serving(folder: Path, port: int, url: str) -> AsyncIterator[Server]:
    config = load_config({"data_dir": str(folder), "store": url, "port": str(port), **QUICK}, {})
    served = Server(config.settings)

    async def serve() -> None:
        await served.start()
        if served.is_open:
            await served.run()

    task = asyncio.create_task(serve())
    try:
        yield served
    finally:
        served.quit()
        await task


async def ask(port: int, method: str, path: str, key: str = "", body: object = None) -> Reply:
    """As soon as somebody listens."""
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {} if isinstance(body, bytes) else {"Content-Type": "application/json"}
    async with asyncio.timeout(30):
        while True:
            try:
                return await asyncio.to_thread(Client(port, key).ask, method, path, content, headers)
            except ConnectionError:
                await asyncio.sleep(0.01)


async def test_what_a_crash_left_of_small_files_is_removed_at_the_start(tmp_path: Path) -> None:
    folder, port = await asyncio.to_thread(make_folder, tmp_path / "data"), free_port()
    names = ["operator.key", "journal.keys", "journal.spare", "secrets.key"]
    left = [folder / f".{name}.a1b2c3d4" for name in names]
    for path in left:
        path.touch()
        os.utime(path, (1000, 1000))
    async with serving(folder, port, ""):
        assert (await readiness(port, 200)).status == 200
        assert not await asyncio.to_thread(lambda: [path for path in left if path.exists()])


async def readiness(port: int, status: int) -> Reply:
    async def look() -> Reply | None:
        reply = await ask(port, "GET", "/readyz")
        return reply if reply.status == status else None

    return await until(look)


async def test_without_a_spare_it_waits_and_takes_nothing(tmp_path: Path) -> None:
    port = free_port()
    async with serving(tmp_path / "data", port, sqlite_url(tmp_path)):
        assert json.loads((await readiness(port, 503)).body)["problems"] == ["store"]
        assert (await ask(port, "GET", "/healthz")).status == 200
        refused = await ask(port, "POST", "/acme/job/x/add", "fk_abc_" + "x" * 32, b"1")
        assert refused.status == 503
        assert "the store is away" in refused.body.decode()
        await asyncio.to_thread((tmp_path / "mount").mkdir)
        await readiness(port, 200)
        assert (await ask(port, "GET", "/acme/results", "fk_abc_" + "x" * 32)).status == 401, "keys can be checked now"


async def test_it_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    port = free_port()
    async with serving(tmp_path / "data", port, sqlite_url(tmp_path)) as served:
        await readiness(port, 503)
    assert not served.is_open


async def test_keys_of_the_last_life_are_good_and_no_others(tmp_path: Path) -> None:
    port, url, data = free_port(), sqlite_url(tmp_path), tmp_path / "data"
    await asyncio.to_thread((tmp_path / "mount").mkdir)
    async with serving(data, port, url) as served:
        await readiness(port, 200)
        operator = (await asyncio.to_thread((data / "operator.key").read_text)).strip()
        await ask(port, "POST", "/admin/tenants", operator, {"name": "acme"})
        used, unused = [
            json.loads((await ask(port, "POST", "/admin/tenants/acme/keys", operator, {})).body)["key"] for _ in "12"
        ]
        assert (await ask(port, "POST", "/acme/job/x/add", used, b"1")).status == 200
        await served._daemon._parts.joining.keep_spare()
    kept = data / "journal.keys"
    assert stat.S_IMODE((await asyncio.to_thread(kept.stat)).st_mode) == 0o600
    assert used.split("_", 2)[2].encode() not in await asyncio.to_thread(kept.read_bytes)
    await unmount(tmp_path)
    async with serving(data, port, url):
        await readiness(port, 200)
        accepted = await ask(port, "POST", "/acme/job/x/add", used, b"2")
        assert accepted.status == 200
        for key in (unused, operator, used[:-1] + ("x" if used[-1] != "x" else "y"), "fk_abc_" + "x" * 32):
            refused = await ask(port, "POST", "/acme/job/x/add", key, b"3")
            assert (refused.status, "the store is away" in refused.body.decode()) == (503, True)
        assert (await ask(port, "POST", "/other/job/x/add", used, b"4")).status == 403
        await mount(tmp_path)
        (job_id,) = json.loads(accepted.body)["ids"]

        async def is_stored() -> bool:
            return (await ask(port, "GET", f"/acme/job/{job_id}", unused)).status == 200

        await until(is_stored)


@pytest.mark.parametrize("is_away", [True, False])
async def test_lines_taken_by_a_journal_that_is_older_than_its_store_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_away: bool
) -> None:
    """The journal was restored, and its store was not. The daemon dies after it has joined, before it moves a line."""
    journal = tmp_path / "data" / "journal"
    await live_once(tmp_path, sqlite_url(tmp_path))
    await asyncio.to_thread(shutil.copytree, journal, tmp_path / "older")
    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as daemon:
        await daemon.intake.write("acme-x", [b"x" * 1000] * 50)
        await daemon.intake.flush()
    if is_away:
        await unmount(tmp_path)
    await asyncio.to_thread(shutil.rmtree, journal)
    await asyncio.to_thread((tmp_path / "older").rename, journal)
    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as daemon:
        add_jobs = SqliteStore.add_jobs

        async def add_none(store: SqliteStore, jobs: Sequence[NewJob], **more: Any) -> Any:
            if jobs:
                raise StoreUnavailable("it dies here")
            return await add_jobs(store, jobs, **more)

        monkeypatch.setattr(SqliteStore, "add_jobs", add_none)
        (late,) = await daemon.intake.write("acme-x", [b"late"])
        if is_away:
            await mount(tmp_path)
        await until(lambda: has_joined(daemon))
    monkeypatch.undo()
    async with running_daemon(tmp_path / "data", store=sqlite_url(tmp_path)) as daemon:
        assert (await ended(daemon, late)).job.attempts == 1

"""A service that cannot start ends, with a status and words that say why."""

import asyncio
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from store.url import open_store
from tests.support.command_line import clean_environ, functory
from tests.support.daemon_process import free_port
from tests.support.service import UNCONFINED

pytestmark = pytest.mark.slow

SERVE = ["serve", *(part for name, value in UNCONFINED.items() for part in (f"--{name.replace('_', '-')}", value))]
OF_THE_FOLDER = 'open("imported", "w").close()\n'


async def test_several_processes_end_when_a_setting_is_wrong(tmp_path: Path) -> None:
    """As one does, with status 2: a service manager does not start it again then."""
    ended = await functory(*SERVE, "--processes", "2", "--data-dir", str(tmp_path), "--port", "0", FUNCTORY_LEASE="0s")
    assert (ended.status, "processes.died" in ended.err) == (2, False), ended.err
    assert "lease" in ended.err


@pytest.mark.parametrize("url", ["mysql://x", "mongodb://"])
async def test_several_processes_end_when_the_store_cannot_be_meant(tmp_path: Path, url: str) -> None:
    ended = await functory(*SERVE, "--processes", "2", "--data-dir", str(tmp_path), "--port", "0", FUNCTORY_STORE=url)
    assert (ended.status, "processes.died" in ended.err) == (2, False), ended.err


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_store_of_a_newer_version_ends_the_start(tmp_path: Path, processes: str) -> None:
    """A service manager would start it again and again, and it would be as new as before."""

    def make_newer() -> None:
        with closing(sqlite3.connect(tmp_path / "functory.db")) as conn:
            conn.execute("PRAGMA user_version = 9999")

    async with open_store(f"sqlite://{tmp_path}/functory.db"):
        pass
    await asyncio.to_thread(make_newer)
    port = str(free_port())
    ended = await functory(*SERVE, "--processes", processes, "--data-dir", str(tmp_path), "--port", port)
    assert (ended.status, "processes.died" in ended.err) == (2, False), ended.err
    assert "has schema 9999" in ended.err


async def test_processes_import_nothing_from_the_folder_in_which_they_are_started(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "scheduler.py").write_text, OF_THE_FOLDER)
    arguments = [*SERVE, "--processes", "2", "--data-dir", "data", "--port", "0", "--lease", "0s"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # as the installed command
        "-m",
        "functory",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environ() | {"PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
    )
    try:
        async with asyncio.timeout(60):
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert not await asyncio.to_thread((tmp_path / "imported").exists), err.decode()


async def test_a_port_that_is_taken_is_reported_with_its_setting(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        data_dir = ("--data-dir", str(tmp_path))
        ended = await functory(*SERVE, *data_dir, "--port", "0", "--status-port", port)
        assert (ended.status, "status_port: " in ended.err) == (8, True), ended.err
        ended = await functory(*SERVE, *data_dir, "--port", port)
        assert (ended.status, " port: " in ended.err) == (8, True), ended.err


@pytest.mark.parametrize("host", ["nosuchhost.invalid", "192.0.2.1"])
async def test_a_host_that_is_not_this_machine_is_reported_with_its_setting(tmp_path: Path, host: str) -> None:
    data_dir = ("--data-dir", str(tmp_path))
    ended = await functory(*SERVE, *data_dir, "--port", "0", "--host", host)
    assert (ended.status, " host: " in ended.err) == (8, True), ended.err
    ended = await functory(*SERVE, *data_dir, "--port", "0", "--status-host", host, "--status-port", "1")
    assert (ended.status, " status_host: " in ended.err) == (8, True), ended.err

"""The programs of docs/workers.md and docs/coming-from.md, run as they stand; and `functory worker`."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from functory.client import Client
from functory.queue import open_queue
from tests.support.command_line import clean_environ, functory
from tests.support.needs import need_command
from tests.support.served_daemon import Served, served_daemon
from tests.support.service import until

PAGE = (Path(__file__).parents[2] / "docs" / "workers.md").read_text()
FLOW, IN_PROCESS, REMOTE, TASKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[NODE] = re.findall(r"```js\n(.*?)```", PAGE, re.DOTALL)
[SHELL] = re.findall(r"```sh-worker\n(.*?)```", PAGE, re.DOTALL)
CHORD = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
[GALLERY] = re.findall(r"```python\n(.*?)```", CHORD, re.DOTALL)
[GALLERY_JOB] = re.findall(r"functory job add gallery '(.*)' --wait", CHORD)
[GALLERY_RESULT] = re.findall(r"The result is `(.*?)`", CHORD)
STUCK = """
import pathlib, threading
from functory.queue import Worker

worker = Worker()


@worker.task("stuck")
def stuck(payload):
    pathlib.Path("begun").touch()
    threading.Event().wait()
"""
FORKS = """
import multiprocessing
from functory.queue import Worker

worker = Worker()


@worker.task("square")
def square(payload):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, payload)
"""
COMMANDS = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
REGISTRATIONS = {line.split()[3]: line for line in COMMANDS.splitlines() if line.startswith("functory handler put ")}
[TAKEN_JOB] = re.findall(r"/job/resize/add\" .* -d '(.*)'", COMMANDS)
[ADDED_JOB] = re.findall(r"functory job add resize '(.*)' --wait", PAGE)


@pytest.fixture(autouse=True)
def _programs(tmp_path: Path) -> None:
    assert '"wait_s": 20' in SHELL
    quick = SHELL.replace('"wait_s": 20', '"wait_s": 1')
    python = {"tasks.py": TASKS, "gallery.py": GALLERY, "stuck.py": STUCK, "forks.py": FORKS}
    for name, text in {"worker.mjs": NODE, "worker.sh": quick, **python}.items():
        (tmp_path / name).write_text(text)


@pytest.fixture
def node() -> str:
    return need_command("node", "nodejs")


@pytest.fixture
def curl() -> str:
    return need_command("curl", "curl")


@asynccontextmanager
async def program(served: Served, folder: Path, *command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Asked to stop at the end, which it must do well."""
    environ = {"FUNCTORY_URL": served.url, "FUNCTORY_KEY": served.key, "FUNCTORY_TENANT": "acme"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=clean_environ() | environ, stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            _, trace = await process.communicate()
        assert process.returncode == 0, trace.decode()
        assert b"rror" not in trace, trace.decode()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def results(served: Served, job_type: str, payloads: list[str]) -> list[str | None]:
    async with Client(served.url, served.key, "acme") as acme:
        added = await acme.add_jobs(job_type, payloads)
        assert isinstance(added.ids, list)
        jobs = [await acme.get_job(job_id, wait_s=60) for job_id in added.ids]
        assert [(job.code, job.isolation) for job in jobs] == [("ok", "external")] * len(payloads)
        return [job.result for job in jobs]


async def serve(served: Served, job_type: str) -> None:
    async with Client(served.url, served.key, "acme") as acme:
        await acme.put_handler(job_type, "worker", "")


async def register(served: Served, job_type: str) -> None:
    """As the page says."""
    _, *command = REGISTRATIONS[job_type].split()
    environ = {"FUNCTORY_URL": served.url, "FUNCTORY_KEY": served.key, "FUNCTORY_TENANT": "acme"}
    ended = await functory(*command, **environ)
    assert ended.status == 0, ended.err


async def nobody(served: Served, name: str) -> None:
    """Whoever was here has said goodbye."""
    workers = await served.daemon.workers.seen("acme")
    assert not [seen.name for seen in workers if seen.name.startswith(name)]


async def test_the_worker_in_process_and_remote_is_the_same(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/jobs.db"
    text = FLOW + IN_PROCESS.replace("sqlite:///tmp/jobs.db", url)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text, cwd=tmp_path)
    async with asyncio.timeout(60):
        assert await process.wait() == 0
    async with open_queue(url) as queue:
        assert await queue.take_some(limit=5) == [], "it is done"
    async with served_daemon(tmp_path / "daemon") as served:
        await register(served, "resize")
        environ = {"FUNCTORY_URL": served.url, "FUNCTORY_KEY": served.key, "FUNCTORY_TENANT": "acme"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FLOW + REMOTE, cwd=tmp_path, env=clean_environ() | environ
        )
        assert await results(served, "resize", [TAKEN_JOB]) == [""]
        async with asyncio.timeout(60):
            assert await process.wait() == 0


async def test_the_node_worker(tmp_path: Path, node: str) -> None:
    async with served_daemon(tmp_path / "daemon") as served:
        await register(served, "hello")
        async with program(served, tmp_path, node, "worker.mjs"):
            assert await results(served, "hello", ["Ada", '"quoted"']) == [
                '{"hello":"Ada"}',
                '{"hello":"\\"quoted\\""}',
            ]
        await nobody(served, "node-")


@pytest.mark.usefixtures("curl")
async def test_the_shell_worker(tmp_path: Path) -> None:
    async with served_daemon(tmp_path / "daemon") as served:
        await register(served, "shout")
        async with program(served, tmp_path, "/bin/sh", "worker.sh"):
            larger_than_an_argument = "x" * 100_000
            texts = ["ada", 'say "hi", {ok}', "a\\b c", larger_than_an_argument]
            assert await results(served, "shout", texts) == [text.upper() for text in texts]
        await nobody(served, "sh-")


async def test_the_requests_of_the_page(tmp_path: Path, curl: str) -> None:
    async with served_daemon(tmp_path) as served:
        path = f"{Path(sys.executable).parent}:{curl.rpartition('/')[0]}:/usr/bin:/bin"
        environ = {"FUNCTORY_URL": served.url, "FUNCTORY_KEY": served.key, "FUNCTORY_TENANT": "acme", "PATH": path}
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-euc",
            COMMANDS,
            env=clean_environ() | environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, trace = await process.communicate()
        assert process.returncode == 0, trace.decode()
        assert f'"payload":{json.dumps(TAKEN_JOB)}'.encode() in out
        assert b'"answer":"ok"' in out


async def test_functory_worker_runs_the_tasks_of_a_module(tmp_path: Path) -> None:
    async with served_daemon(tmp_path / "daemon") as served:
        command = (sys.executable, "-m", "functory", "worker", "tasks:worker", "--concurrency", "2", "--name", "py")
        async with program(served, tmp_path, *command):

            async def is_registered() -> bool:
                return bool(await served.daemon.store.list_handlers("acme"))

            await until(is_registered)
            assert await results(served, "resize", [TAKEN_JOB, ADDED_JOB]) == ['{"width":400}'] * 2
        await nobody(served, "py")


async def test_the_chord_of_those_who_come_from_celery(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "functory", "worker", "gallery:worker")
    async with served_daemon(tmp_path / "daemon") as served, program(served, tmp_path, *command):

        async def is_registered() -> bool:
            return len(await served.daemon.store.list_handlers("acme")) == 2

        await until(is_registered)
        assert await results(served, "gallery", [GALLERY_JOB]) == [GALLERY_RESULT]


async def test_functory_worker_goes_on_after_a_task_that_ends_processes_of_its_own(tmp_path: Path) -> None:
    """A pool sends its processes SIGTERM."""
    async with served_daemon(tmp_path / "daemon") as served:
        await serve(served, "square")
        async with program(served, tmp_path, sys.executable, "-m", "functory", "worker", "forks:worker"):
            for _ in range(2):
                assert await results(served, "square", ["[-1, 2]"]) == ["[1,2]"]


async def test_functory_worker_ends_although_a_plain_function_does_not(tmp_path: Path) -> None:
    async with served_daemon(tmp_path / "daemon") as served:
        await serve(served, "stuck")
        async with Client(served.url, served.key, "acme") as acme:
            added = await acme.add_jobs("stuck", ["x"])
            assert isinstance(added.ids, list)
            command = (sys.executable, "-m", "functory", "worker", "stuck:worker", "--grace-s", "0")
            async with program(served, tmp_path, *command):

                async def has_begun() -> bool:
                    return await asyncio.to_thread((tmp_path / "begun").exists)

                await until(has_begun)
            job = await acme.get_job(added.ids[0])
        assert (job.state, job.attempts) == ("waiting", 0), "it was given back"


@pytest.mark.parametrize(
    ("name", "told"), [("nowhere:worker", "no module nowhere"), ("json:worker", "has no Worker of that name")]
)
async def test_a_module_without_a_worker_is_named(tmp_path: Path, name: str, told: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "functory", "worker", name, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    _, trace = await process.communicate()
    assert (process.returncode, told in trace.decode()) == (2, True), trace.decode()

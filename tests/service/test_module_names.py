"""Modules of a program that have the names of our packages: they are its own, or it is told."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import clean_environ
from tests.support.served_daemon import served_daemon

PROGRAM = """
import asyncio, sys
import handlers, journal, runner, scheduler, store
from functory.client import Client
from functory.queue import LeaseLost, Worker, open_queue

url, key = sys.argv[1:]
worker = Worker()

@worker.task("save", register=True)
def save(payload):
    worker.stop()
    return store.keep(payload)

async def main():
    async with Client(url, key, "acme") as acme, open_queue(url, key=key, tenant="acme") as queue:
        await queue.register("save")
        (job_id,) = await queue.add("save", "a")
        await worker.run(queue)
        print((await acme.get_job(job_id, wait_s=30)).result)

asyncio.run(main())
"""


ENVIRON = clean_environ() | {"PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    for name in ("handlers", "journal", "runner", "scheduler", "store"):
        (tmp_path / f"{name}.py").write_text("def keep(text):\n    return [text]\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


async def test_a_program_with_a_queue_elsewhere_has_modules_of_its_own_choice(program: Path, tmp_path: Path) -> None:
    async with served_daemon(tmp_path / "daemon") as served:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, program, served.url, served.key),
            env=ENVIRON,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, trace = await process.communicate()
    assert (process.returncode, out.decode(), trace.decode()) == (0, '["a"]\n', "")


def refused(folder: Path) -> str:
    """What `functory worker` says."""
    command = (sys.executable, "-P", "-m", "functory", "worker", "tasks:worker")
    ended = subprocess.run(command, cwd=folder, env=ENVIRON, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("name", ["store.py", "vocabulary.py", "handlers/__init__.py"])
def test_functory_worker_names_a_module_that_cannot_have_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "tasks.py").write_text("from functory.queue import Worker\nworker = Worker()\n")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert refused(tmp_path) == (
        f"functory: {tmp_path / name} cannot have that name. Functory's own packages are functory, handlers, journal, "
        "runner, scheduler, store, vocabulary: rename yours\n"
    )


def test_functory_worker_takes_a_folder_of_data_for_no_module(tmp_path: Path) -> None:
    """If a module in it is wanted, the message says why it was not found."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "double.py").write_text("return payload")
    (tmp_path / "tasks.py").write_text("import handlers.double")
    told = refused(tmp_path)
    assert "no module handlers.double in this folder or on the path. Functory's own packages are" in told

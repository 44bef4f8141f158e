"""A job that raises is told to whoever runs the program: by functory.queue's log, and by `functory worker`."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from functory.client import Client
from functory.errors import ClientError, ServerUnreachable
from functory.queue import Fail, Retry, Worker, open_queue
from tests.support.command_line import clean_environ
from tests.support.queue_places import Place
from tests.support.served_daemon import served_daemon
from tests.support.service import until

TASKS = """
from functory.queue import Worker

worker = Worker()


@worker.task("resize", options={"max_attempts": 2, "retry_base_ms": 10, "retry_max_ms": 10})
def resize(payload):
    raise ValueError(f"no picture {chr(27)}[31m in the payload" + "x" * 100_000)
"""


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.message == "queue.job_raised"]


async def raise_in_a_block(place: Place, error: BaseException, **options: object) -> str:
    async with place.open() as queue:
        await queue.register("resize", options=options)
        (job_id,) = await queue.add("resize", "the payload")
        async with await queue.next():
            raise error
        return job_id


@pytest.mark.parametrize(("attempts", "became"), [(9, "it will be tried again"), (1, "it is abandoned")])
async def test_an_exception_is_told_with_its_job_and_what_became_of_it(
    place: Place, caplog: pytest.LogCaptureFixture, attempts: int, became: str
) -> None:
    job_id = await raise_in_a_block(place, ValueError("no picture"), max_attempts=attempts)
    (record,) = told(caplog)
    fields: dict[str, Any] = record.__dict__
    assert (record.name, record.levelno) == ("functory.queue", logging.ERROR)
    assert (fields["id"], fields["type"], fields["attempt"]) == (job_id, "resize", 1)
    assert (fields["raised"], fields["became"].partition(":")[0]) == ("ValueError: no picture", became)
    assert "raise_in_a_block" in caplog.text
    assert "the payload" not in caplog.text


@pytest.mark.parametrize(
    ("error", "became"), [(Fail("no cat"), "it has failed"), (Retry("not now"), "it will be tried again")]
)
async def test_an_outcome_that_is_meant_is_told_without_a_trace(
    place: Place, caplog: pytest.LogCaptureFixture, error: Exception, became: str
) -> None:
    caplog.set_level(logging.INFO, "functory.queue")
    await raise_in_a_block(place, error)
    (record,) = told(caplog)
    assert (record.levelno, record.exc_info, record.__dict__["became"]) == (logging.INFO, None, became)
    assert str(error) in record.__dict__["raised"]


async def test_what_is_raised_after_the_end_is_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        async with await queue.next() as job:
            await job.done()
            raise ValueError
    assert [record.__dict__["became"] for record in told(caplog)] == ["it had ended well before"]


async def test_a_result_that_cannot_be_sent_is_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        async with await queue.next() as job:
            job.result = {1, 2}
    (record,) = told(caplog)
    assert "set" in record.__dict__["raised"]


async def test_an_end_that_nobody_heard_is_told(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.open() as queue:
        await queue.register("resize")
        await queue.add("resize", "1")
        job = await queue.next()

        async def is_away(_: object) -> None:
            raise ServerUnreachable("away")

        monkeypatch.setattr(job._reporter, "report", is_away)
        with pytest.raises(ServerUnreachable):
            async with job:
                raise ValueError
    (record,) = told(caplog)
    assert "not recorded" in record.__dict__["became"]


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_an_exception_with_a_message_that_is_too_long_is_tried_again(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("resize", options={"retry_base_ms": 1, "retry_max_ms": 1})
        await queue.add("resize", "1")
        async with await queue.next():
            raise ValueError("<html>" * (3 << 20) + "é and the end")
        async with await queue.next() as again:
            assert again.attempts == 2
            await again.log("line\n" * 100_000)
        assert (await place.end(again.id)).exitcode == 200


async def test_a_server_that_takes_no_end_is_told_in_a_sentence(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    worker.task("resize")(lambda payload: payload)

    async def is_revoked(_: object) -> None:
        raise ClientError(401, "unauthorized", "the key was revoked", {}, None)

    async with place.open() as queue:
        await queue.register("resize")
        monkeypatch.setattr(queue._link, "report", is_revoked)
        running = asyncio.create_task(worker.run(queue))
        await queue.add("resize", "1")

        async def not_reported() -> list[logging.LogRecord]:
            return [record for record in caplog.records if record.message == "worker.job_not_reported"]

        (record,) = await until(not_reported)
        worker.stop()
        await running
    assert record.__dict__["reason"] == "the key was revoked (unauthorized)"
    assert [each.exc_info for each in (record, *told(caplog))] == [None, None]


def _resize(_: object) -> None:
    raise ValueError("no picture")


async def _resize_soon(payload: object) -> None:
    await asyncio.sleep(0)
    _resize(payload)


@pytest.mark.parametrize("function", [_resize, _resize_soon])
async def test_a_trace_begins_in_the_task(
    place: Place, caplog: pytest.LogCaptureFixture, function: Callable[[object], object]
) -> None:
    worker = Worker()
    worker.task("resize", options={"max_attempts": 1})(function)
    async with place.open() as queue:
        running = asyncio.create_task(worker.run(queue))
        (job_id,) = await queue.add("resize", "1")

        async def result() -> bytes | None:
            record = await place.store.get_job(place.tenant, job_id, now_ms=place.now_ms(), max_bytes=10_000)
            return record.outcome.result if record is not None and record.outcome is not None else None

        kept = await until(result)
        worker.stop()
        await running
    for trace in (kept.decode(), caplog.text):
        first = trace.partition("Traceback (most recent call last):\n")[2].partition("\n")[0]
        assert Path(__file__).name in first
        assert function.__name__ in first
        assert "ValueError: no picture" in trace


async def test_a_job_that_is_given_back_is_not_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    worker, has_begun = Worker(), asyncio.Event()

    @worker.task("resize", register=True)
    async def resize(_: object) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async with place.open() as queue:
        running = asyncio.create_task(worker.run(queue, grace_s=0.0))
        await queue.add("resize", "1")
        await has_begun.wait()
        worker.stop()
        await running
    assert told(caplog) == []


@pytest.fixture
def _tasks(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)


@pytest.mark.slow
@pytest.mark.usefixtures("_tasks")
async def test_functory_worker_shows_what_its_tasks_raise(tmp_path: Path) -> None:
    async with served_daemon(tmp_path / "daemon") as served, Client(served.url, served.key, "acme") as acme:
        environ = {"FUNCTORY_URL": served.url, "FUNCTORY_KEY": served.key, "FUNCTORY_TENANT": "acme"}
        command = (sys.executable, "-m", "functory", "worker", "tasks:worker")
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=clean_environ() | environ, stderr=asyncio.subprocess.PIPE
        )
        try:
            added = await acme.add_jobs("resize", ["secret payload"])
            assert isinstance(added.ids, list)
            job = await acme.get_job(added.ids[0], wait_s=60)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                shown = (await process.communicate())[1].decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert (job.code, process.returncode) == ("abandoned", 0), shown
    first, second = [line for line in shown.splitlines() if "queue.job_raised" in line]
    assert f"id={job.id} type=resize attempt=1 " in first
    assert 'became="it will be tried again"' in first
    assert " attempt=2 " in second
    assert 'became="it is abandoned' in second
    assert '\n      File "' in shown, "the trace is readable"
    assert "in resize\n" in shown
    assert "\x1b" not in shown
    assert "secret" not in shown
    assert len(shown) < 50_000


@pytest.mark.slow
@pytest.mark.usefixtures("_tasks")
async def test_functory_worker_on_a_store_is_told_nothing_by_the_variables_of_a_server(tmp_path: Path) -> None:
    """A program that adds jobs there has no key, and the tenant that `open_queue` makes."""
    url = f"sqlite://{tmp_path}/jobs.db"
    environ = {"FUNCTORY_URL": "http://127.0.0.1:1", "FUNCTORY_KEY": "fk_a_b", "FUNCTORY_TENANT": "acme"}
    async with open_queue(url) as queue:
        command = (sys.executable, "-m", "functory", "worker", "tasks:worker", "--url", url)
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=clean_environ() | environ, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr
        try:
            async with asyncio.timeout(60):
                while b"Working on resize" not in (line := await process.stderr.readline()):
                    assert line, "it has ended"
                assert await queue.worker_types() == ["resize"]
        finally:
            process.kill()
            await process.communicate()

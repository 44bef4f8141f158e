"""functory.sync against a daemon, over HTTP: its calls block, so they are made in a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pytest

from functory.sync import (
    ClientError,
    Conflict,
    InvalidInput,
    JobFailed,
    Jobs,
    NotEndedYet,
    NotFound,
    OverLimit,
    ServerUnreachable,
)
from functory.web.app import make_app
from functory.web.http.settings import WebSettings
from functory.web.listener import Listener
from store.base import JobFilter, JobState
from tests.support.fake_server import Say, Seen, fake_server
from tests.support.served_daemon import Served, served_daemon

T = TypeVar("T")
ECHO = "return {'got': payload}"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with served_daemon(tmp_path) as running:
        yield running


async def with_jobs(served: Served, work: Callable[[Jobs], T]) -> T:
    def run() -> T:
        with Jobs(served.url, key=served.key, tenant="acme") as jobs:
            return work(jobs)

    return await asyncio.to_thread(run)


async def register(served: Served, job_type: str, body: str, keep: str = "all") -> None:
    reply = await asyncio.to_thread(served.client.register, body, job_type, keep=keep)
    assert reply.status < 300, reply.body


async def stored(served: Served, state: JobState) -> list[str]:
    await served.daemon.intake.flush()
    page = await served.daemon.store.list_jobs("acme", JobFilter(state), now_ms=served.daemon.clock.now_ms())
    return [record.job.id for record in page.records]


async def test_a_job_is_added_waited_for_and_read(served: Served) -> None:
    await register(served, "echo", ECHO)

    def work(jobs: Jobs) -> None:
        job_id = jobs.add("echo", {"n": [1, None]})
        job = jobs.wait(job_id, timeout_s=60)
        assert (job.id, job.is_over, job.code, job.payload) == (job_id, True, "ok", '{"n":[1,null]}')
        assert job.check().value() == {"got": '{"n":[1,null]}'}
        assert jobs.get(job_id).value() == job.value()

    await with_jobs(served, work)


@pytest.mark.parametrize("payload", ["7", b"7", 7, {"n": 1}, None, "ä", "two\nlines", b"#\x01", ["a"], ""])
async def test_payloads_are_those_of_the_asynchronous_client(served: Served, payload: object) -> None:
    await register(served, "echo", "return payload")
    ran = await with_jobs(served, lambda jobs: jobs.run("echo", payload, timeout_s=60))
    others = {"7": "7", "{": '{"n":1}', "[": '["a"]'}
    said = payload.decode() if isinstance(payload, bytes) else "" if payload is None else str(payload)
    assert ran.value() == others.get(said[:1], said)


async def test_options_reach_the_job_and_many_are_added_in_order(served: Served) -> None:
    def work(jobs: Jobs) -> None:
        job = jobs.get(jobs.add("echo", "x", delay_s=3600, priority=1000, domain="d", key="k"))
        assert (job.state, job.priority, job.domain, job.key) == ("deferred", 1000, "d", "k")
        ids = jobs.add_many("echo", (str(number) for number in range(300)), delay_s=3600)
        assert len(set(ids)) == 300
        assert [jobs.get(ids[number]).payload for number in (0, 7, 299)] == ["0", "7", "299"]
        assert jobs.add_many("echo", []) == []
        first = jobs.add("echo", "a", unique="u", delay_s=3600)
        assert jobs.add("echo", "b", unique="u") == first
        jobs.cancel(first)
        assert jobs.get(first).code == "cancelled"
        with pytest.raises(TypeError, match="must be a list of payloads"):
            jobs.add_many("echo", "abc")

    await with_jobs(served, work)


async def test_a_job_that_did_not_end_well_is_told_when_its_caller_asks(served: Served) -> None:
    await register(served, "bad", "ctx.fail('no such file')")
    await register(served, "odd", "raise ValueError('odd')")

    def work(jobs: Jobs) -> None:
        job = jobs.run("bad", timeout_s=60)
        assert (job.is_over, job.code) == (True, "failed")
        with pytest.raises(JobFailed, match=f"job {job.id} of type bad: failed: no such file") as caught:
            job.check()
        assert caught.value.detail == {"id": job.id, "code": "failed", "exitcode": 400}
        with pytest.raises(JobFailed, match=r"ended with 500 \(error\): ValueError: odd"):
            jobs.invoke("odd").check()

    await with_jobs(served, work)


async def test_a_job_that_goes_on_is_told_and_can_be_waited_for_again(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    await register(served, "slow", f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")

    def work(jobs: Jobs) -> None:
        with pytest.raises(NotEndedYet, match=r"has not ended within 0\.1 s") as caught:
            jobs.run("slow", "x", timeout_s=0.1)
        with pytest.raises(NotEndedYet):
            jobs.wait(str(caught.value.detail["id"]), timeout_s=0)
        with pytest.raises(NotEndedYet, match=r"it is waiting; .*handler"):
            jobs.run("mistyped", "x", timeout_s=0.1)
        with pytest.raises(JobFailed, match=r"it is (waiting|running)"):
            jobs.get(str(caught.value.detail["id"])).check()
        gate.touch()
        assert jobs.wait(str(caught.value.detail["id"]), timeout_s=60).code == "ok"

    await with_jobs(served, work)


async def test_a_handler_is_invoked_without_a_job(served: Served) -> None:
    await register(served, "echo", ECHO)
    assert await with_jobs(served, lambda jobs: jobs.invoke("echo", {"n": 1}).check().value()) == {"got": '{"n":1}'}
    assert await with_jobs(served, lambda jobs: jobs.invoke("echo").value()) == {"got": ""}
    assert [await stored(served, state) for state in (JobState.WAITING, JobState.ARCHIVED)] == [[], []]


async def test_a_result_that_is_large_or_not_kept_is_for_who_runs_the_job(served: Served) -> None:
    await register(served, "large", "return 'x' * 1_500_000")
    await register(served, "stream", ECHO, keep="none")

    def work(jobs: Jobs) -> None:
        assert jobs.run("large", timeout_s=60).value() == "x" * 1_500_000
        assert jobs.run("stream", "a", timeout_s=60).check().value() == {"got": "a"}

    await with_jobs(served, work)


async def test_errors_are_those_of_the_queue_with_the_words_of_the_server(served: Served) -> None:
    wrong: list[tuple[Callable[[Jobs], object], type[Exception], str]] = [
        (lambda jobs: jobs.get("nope"), NotFound, "there is no job 'nope'"),
        (lambda jobs: jobs.get("../x"), NotFound, "there is no job '../x'"),
        (lambda jobs: jobs.wait("nope"), NotFound, "nope"),
        (lambda jobs: jobs.add("echo", "x", parent="nobody"), NotFound, "job nobody"),
        (lambda jobs: jobs.add("echo", "x" * 1_048_577), OverLimit, "1048577"),
        (lambda jobs: jobs.add("echo", "x" * 40_000_000), OverLimit, "larger than 16777216 bytes"),
        (lambda jobs: jobs.add("echo", "x", priority=7), InvalidInput, "priority"),
        (lambda jobs: jobs.add("echo", "x", countdown=5), InvalidInput, "countdown is not an option of a job; known"),  # type: ignore[call-arg]
        (lambda jobs: jobs.get(None), InvalidInput, "None is not text"),  # type: ignore[arg-type]
        (lambda jobs: jobs.add("echo", "x", repeat=60), InvalidInput, "repeat must be text"),  # type: ignore[arg-type]
        (lambda jobs: jobs.run("echo", "x", repeat="HOURLY"), InvalidInput, "does not end: use add"),
        (lambda jobs: jobs.add_many("echo", ["x", "y"], unique="u"), InvalidInput, "the name of one job"),
        (lambda jobs: jobs.add_many("echo", ["x\n", "y"], unique="u"), InvalidInput, "the name of one job"),
        (lambda jobs: jobs.add("echo", "x", unique="u", idempotency_key="k"), InvalidInput, "either unique or"),
        (lambda jobs: [jobs.add("echo", text, idempotency_key="i") for text in "ab"], InvalidInput, "mismatch"),
        (lambda jobs: jobs.cancel(jobs.run("echo", "x", timeout_s=60).id), Conflict, "has ended"),
        (lambda _: Jobs(served.url, key="fk_x", tenant="acme").add("echo"), ClientError, "the key is not known"),
        (lambda _: Jobs(served.url, key=served.key, tenant="other").add("echo"), ClientError, "not the tenant"),
    ]
    await register(served, "echo", ECHO)
    for mistake, kind, says in wrong:
        with pytest.raises(kind) as caught:
            await with_jobs(served, mistake)
        assert says in str(caught.value)


async def test_a_job_whose_answer_was_cut_off_is_added_once(served: Served) -> None:
    """The daemon has it, and the answer is lost: first on a new connection, then on a kept one."""
    await register(served, "echo", ECHO)

    def relay(seen: Seen) -> Say:
        kept = {name: seen.headers[name] for name in seen.headers if name.lower() == "content-type"}
        return Say(*served.client.ask(seen.method, seen.target, seen.body, kept))

    def lose(seen: Seen) -> None:
        assert relay(seen).status == 200

    def work() -> list[str]:
        steps = (lose, relay), (lose, lose, relay), (lose, relay), (lose, relay)
        with fake_server(*chain(*steps)) as between, Jobs(between.url, key=served.key, tenant="acme") as jobs:
            added = [jobs.add("later", "a", delay_s=3600), *jobs.add_many("later", ["b", "c\n"], delay_s=3600)]
            ran = jobs.run("echo", "d", timeout_s=60)
            assert ran.check().value() == {"got": "d"}
            with pytest.raises(ServerUnreachable, match="may have done what was asked"):
                jobs.add("later", "e", delay_s=3600, unique="e")
            assert len(between.seen) == 8, "the last is not sent again"
            return [*added, ran.id]

    *added, ran = await asyncio.to_thread(work)
    deferred = await stored(served, JobState.DEFERRED)
    assert (len(deferred), set(added) < set(deferred)) == (4, True)
    assert await stored(served, JobState.ARCHIVED) == [ran]


async def test_a_server_that_was_restarted_is_found_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    failed, loop = asyncio.Event(), asyncio.get_running_loop()

    def pause(*_: object) -> float:
        loop.call_soon_threadsafe(failed.set)
        return 0.01

    monkeypatch.setattr("functory.sync.server.pause_after", pause)
    port = served.listener.port
    with Jobs(served.url, key=served.key, tenant="acme", timeout_s=60) as jobs:
        first = await asyncio.to_thread(jobs.add, "later", "a", delay_s=3600)
        await served.listener.stop()
        reading = asyncio.ensure_future(asyncio.to_thread(jobs.get, first))
        await failed.wait()
        restarted = Listener(make_app(served.service, WebSettings(port=port, shutdown_s=1.0)))
        await restarted.start()
        try:
            assert (await reading).id == first
        finally:
            await restarted.stop()

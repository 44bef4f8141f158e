"""The life of a job over HTTP: each outcome, waiting for it, and a daemon that ends in the middle of it."""

import asyncio
from pathlib import Path

import pytest

from functory.client import Client, ClientError
from functory.wire.jobs import Job
from tests.support.daemon_process import SANDBOXED, daemon, make_key, make_tenant
from tests.support.needs import need_isolation
from tests.support.polling import until

pytestmark = pytest.mark.slow

OUTCOMES = """
if payload == "fail": return ctx.fail("no good")
if payload == "crash": import os; os._exit(3)
if payload == "raise": raise KeyError("missing")
if payload == "later": return ctx.retry(after_s=0.01) if ctx.attempt < 3 else "at last"
print("seen", payload)
return {"twice": 2 * int(payload)}
"""


async def test_each_outcome_as_its_tenant_reads_it(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data", max_attempts="4") as server, await make_tenant(server, "acme") as acme:
        await acme.put_handler("x", "python", OUTCOMES)
        names = ["21", "fail", "crash", "raise", "later"]
        added = await acme.add_jobs("x", names)
        jobs = [await acme.get_job(id_, wait_s=60) for id_ in added.ids or []]
        ended = {name: (job.state, job.code, job.exitcode, job.attempts) for name, job in zip(names, jobs, strict=True)}
        assert ended == {
            "21": ("archived", "ok", 200, 1),
            "fail": ("archived", "failed", 400, 1),
            "crash": ("archived", "abandoned", 502, 4),
            "raise": ("archived", "abandoned", 500, 4),
            "later": ("archived", "ok", 200, 3),
        }
        assert (jobs[0].result, jobs[0].log) == ('{"twice":42}', "seen 21\n")
        assert "KeyError" in jobs[3].message
        (row,) = (await acme.scoreboard()).types
        assert (row.ok, row.failed, row.abandoned, row.retry, row.error) == (2, 1, 2, 2, 6)
        abandoned = await acme.results(code="abandoned")
        assert {job.id for job in abandoned.jobs} == {jobs[2].id, jobs[3].id}


async def test_why_a_job_does_not_run_cancel_and_replay(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data") as server, await make_tenant(server, "acme") as acme:
        (orphan,) = (await acme.add_jobs("nobody", ["x"], ack="store")).ids or []
        assert (await acme.why(orphan)).reason == "no_handler"
        (later,) = (await acme.add_jobs("nobody", ["x"], delay_s=3600, ack="store")).ids or []
        assert (await acme.get_job(later)).state == "deferred"
        await acme.cancel_job(later)
        cancelled = await acme.get_job(later)
        assert (cancelled.state, cancelled.code) == ("archived", "cancelled")

        await acme.put_handler("nobody", "python", "return ctx.fail('not today')")
        assert (await acme.get_job(orphan, wait_s=60)).code == "failed"
        await acme.put_handler("nobody", "python", "return 'today'")
        replayed = await acme.replay(codes=["failed"])
        assert replayed.ids == [orphan]
        job = await acme.get_job(orphan, wait_s=60)
        assert (job.code, job.result, job.handler_version) == ("ok", '"today"', 2)
        with pytest.raises(ClientError) as refused:
            await acme.cancel_job(orphan)
        assert refused.value.status == 409


async def test_waiting_ends_with_the_job_and_not_before(tmp_path: Path) -> None:
    """The handler waits for a file: so the job ends when the test says so, and no time is measured."""
    gate = tmp_path / "gate"
    body = "import os, time\nwhile not os.path.exists(payload): time.sleep(0.01)\nreturn 'through'"
    async with daemon(tmp_path / "data") as server, await make_tenant(server, "acme") as acme:
        await acme.put_handler("wait", "python", body)
        (id_,) = (await acme.add_jobs("wait", [str(gate)])).ids or []
        assert (await acme.get_job(id_, wait_s=0.2)).state != "archived"
        waiting = asyncio.create_task(acme.get_job(id_, wait_s=60))
        await asyncio.to_thread(gate.touch)
        assert (await waiting).result == '"through"'


async def test_a_job_is_known_from_the_moment_its_post_is_answered(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data") as server, await make_tenant(server, "acme") as acme:
        for n in range(50):
            (id_,) = (await acme.add_jobs("x", [str(n)])).ids or []
            job = await acme.get_job(id_)
            assert job.id == id_
            while job.payload is None:  # a slow disk has kept it from the store for seconds
                job = await acme.get_job(id_, wait_s=1)
            assert job.payload == str(n)


async def test_a_chain_of_jobs_in_the_real_sandbox(tmp_path: Path) -> None:
    await asyncio.to_thread(need_isolation)
    async with daemon(tmp_path / "data", SANDBOXED) as server, await make_tenant(server, "acme") as acme:
        await acme.put_handler("first", "python", "for n in range(3): print(f'J: second|{payload}{n}')")
        await acme.put_handler("second", "sh", "tr a-z A-Z; id -u >&2; ls /root /home >&2; exit 0")
        (id_,) = (await acme.add_jobs("first", ["x"])).ids or []
        first = await acme.get_job(id_, wait_s=60)
        assert first.code == "ok", first
        assert first.isolation >= "L1"
        second = await ended_jobs(acme, "second", 3)
        assert {job.payload for job in second} == {"x0", "x1", "x2"}
        assert all(job.code == "ok" for job in second)


async def test_what_was_accepted_before_a_restart_is_run_after_it(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data", role="api") as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", "return payload")
            ids = (await acme.add_jobs("x", [str(n) for n in range(500)])).ids or []
        assert await server.stop() == 0
    async with daemon(tmp_path / "data") as server, Client(server.url, key, "acme") as acme:
        results = [(await acme.get_job(id_, wait_s=60)).result for id_ in ids]
        assert results == [f'"{n}"' for n in range(500)]


async def ended_jobs(client: Client, job_type: str, count: int) -> list[Job]:
    """Jobs of jobs: nobody has been told their ids."""

    async def all_of_them() -> list[Job]:
        jobs = (await client.results(type=job_type, limit=1000)).jobs
        return jobs if len(jobs) == count else []

    return [await client.get_job(job.id) for job in await until(all_of_them)]

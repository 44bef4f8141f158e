"""The life of a job, through each outcome."""

from pathlib import Path

from functory.daemon.daemon import Daemon
from store.base import Code, JobFilter, JobState
from tests.support.service import ended, register, running_daemon, until


async def test_a_job_runs_and_its_result_is_kept(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-double", "return {'twice': int(payload) * 2}")
        ids = await daemon.journal.write("acme-double", [b"21", b"4"])
        outcomes = [(await ended(daemon, id_)).outcome for id_ in ids]
    assert [(o.code, o.exitcode, o.result) for o in outcomes if o] == [
        (Code.OK, 200, b'{"twice":42}'),
        (Code.OK, 200, b'{"twice":8}'),
    ]


async def test_each_outcome_has_its_end(tmp_path: Path) -> None:
    body = """
if payload == "fail": ctx.fail("no good")
if payload == "crash": import os; os._exit(3)
if payload == "raise": raise KeyError("missing")
return 200
"""
    async with running_daemon(tmp_path, max_attempts="2") as daemon:
        await register(daemon, "acme-x", body)
        names = ["ok", "fail", "crash", "raise"]
        ids = dict(zip(names, await daemon.journal.write("acme-x", names), strict=True))
        records = {name: await ended(daemon, ids[name]) for name in names}
    codes = {name: (r.outcome.code, r.outcome.exitcode, r.job.attempts) for name, r in records.items() if r.outcome}
    assert codes == {
        "ok": (Code.OK, 200, 1),
        "fail": (Code.FAILED, 400, 1),
        "crash": (Code.ABANDONED, 502, 2),
        "raise": (Code.ABANDONED, 500, 2),
    }
    outcome = records["raise"].outcome
    assert outcome
    assert b"KeyError" in (outcome.result or b"")
    assert "KeyError" in outcome.message


async def test_a_retry_comes_back_until_it_succeeds(tmp_path: Path) -> None:
    body = "return 200 if ctx.attempt >= 3 else ctx.retry(after_s=0.01)"
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", body)
        (id_,) = await daemon.journal.write("acme-x", ["x"])
        record = await ended(daemon, id_)
    assert record.outcome
    assert (record.outcome.code, record.job.attempts) == (Code.OK, 3)


async def test_a_handler_may_have_retry_rules_of_its_own(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-once", "raise ValueError('no')", options={"max_attempts": 1})
        await register(daemon, "acme-four", "raise ValueError('no')", options={"max_attempts": 4, "retry_base_ms": 1})
        (once,) = await daemon.journal.write("acme-once", ["x"])
        (four,) = await daemon.journal.write("acme-four", ["x"])
        records = [await ended(daemon, once), await ended(daemon, four)]
    assert [(r.outcome.code, r.job.attempts) for r in records if r.outcome] == [
        (Code.ABANDONED, 1),
        (Code.ABANDONED, 4),
    ]


async def test_a_line_of_output_makes_a_job_of_the_same_tenant(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-first", "print('J: second|from ' + payload)")
        await register(daemon, "acme-second", "return payload.upper()")
        (first,) = await daemon.journal.write("acme-first", ["me"])
        await ended(daemon, first)
        await daemon.intake.flush()
        record = await ended(daemon, await until(lambda: second_job(daemon)))
    assert record.job.data == b"from me"
    assert record.outcome
    assert record.outcome.result == b'"FROM ME"'


async def second_job(daemon: Daemon) -> str | None:
    page = await daemon.store.list_jobs(
        "acme", JobFilter(JobState.ARCHIVED, jobtype="acme-second"), now_ms=daemon.clock.now_ms(), limit=10
    )
    return page.records[0].job.id if page.records else None


async def test_a_job_without_a_handler_waits_for_one(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        (id_,) = await daemon.journal.write("acme-later", ["x"])
        await daemon.intake.flush()
        record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
        assert record
        assert record.state == JobState.WAITING
        await register(daemon, "acme-later", "return 201")
        record = await ended(daemon, id_)
    assert record.outcome
    assert record.outcome.exitcode == 201


async def test_what_was_accepted_before_a_restart_is_run_after_it(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, role="api") as daemon:
        await register(daemon, "acme-x", "return payload")
        ids = await daemon.journal.write("acme-x", [str(n) for n in range(100)])
    async with running_daemon(tmp_path) as daemon:
        records = [await ended(daemon, id_) for id_ in ids]
    assert [record.outcome.result for record in records if record.outcome] == [b'"%d"' % n for n in range(100)]


async def test_a_stop_gives_back_what_has_not_finished(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, grace="10ms", slots="1") as daemon:
        await register(daemon, "acme-slow", "import time; time.sleep(600)", timeout_s=3000)
        (id_,) = await daemon.journal.write("acme-slow", ["x"])
        await until(lambda: claimed(daemon))
    async with running_daemon(tmp_path, role="api") as daemon:
        record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
    assert record
    assert (record.state, record.job.attempts) == (JobState.WAITING, 0)


async def claimed(daemon: Daemon) -> int:
    return daemon.executor.claimed


async def test_a_paused_daemon_starts_nothing(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-x", "return 200")
        daemon.pause()
        (id_,) = await daemon.journal.write("acme-x", ["x"])
        await daemon.intake.flush()
        assert daemon.executor.claimed == 0
        daemon.resume()
        await ended(daemon, id_)

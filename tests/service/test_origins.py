"""A job that gets the result of another knows which, whatever way it came: on a running daemon."""

import json
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.execution.afterwards import Afterwards
from functory.intake.job_options import PLAIN
from functory.workers.values import Answer
from store.base import Code, JobFilter, JobRecord, JobState
from tests.support.service import ended, register, running_daemon, until
from tests.support.workers import open_shop
from vocabulary.origin import Origin, origin_of

TELL = "return ctx.follows"


async def jobs_of(daemon: Daemon, jobtype: str, count: int = 1, state: JobState = JobState.ARCHIVED) -> list[JobRecord]:
    """The jobs of a type in a state, once there are so many."""

    async def look() -> list[JobRecord]:
        now_ms = daemon.clock.now_ms()
        page = await daemon.store.list_jobs("acme", JobFilter(state, jobtype), now_ms=now_ms, limit=1000)
        return list(page.records) if len(page.records) >= count else []

    return await until(look)


@pytest.mark.parametrize("straight", ["on", "off"])
@pytest.mark.parametrize(
    ("body", "target", "code"),
    [("pass", "next", "ok"), ("ctx.fail('no')", "alarm", "failed"), ("1 / 0", "alarm", "abandoned")],
)
async def test_each_handler_sees_the_job_that_it_follows(
    tmp_path: Path, straight: str, body: str, target: str, code: str
) -> None:
    async with running_daemon(tmp_path, straight=straight) as daemon:
        await register(daemon, "acme-a", body, then="next", on_failure="alarm", options={"max_attempts": 1})
        await register(daemon, f"acme-{target}", TELL)
        ids = await daemon.intake.write("acme-a", [b"x"] * 5, PLAIN)
        found = await jobs_of(daemon, f"acme-{target}", 5)
        ends = [await ended(daemon, record.job.id) for record in found]
        told = [json.loads(end.outcome.result or b"") for end in ends if end.outcome]
        assert sorted(one["id"] for one in told) == ids
        assert [(one["type"], one["code"]) for one in told] == [("a", code)] * 5
        assert [origin_of(end.job.options) for end in ends] == [Origin(**one) for one in told]
        assert (await ended(daemon, ids[0])).job.options == "", "it follows none itself"


async def test_a_chain_names_the_job_before_each_time(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-a", "pass", then="b")
        await register(daemon, "acme-b", "pass", then="c")
        await register(daemon, "acme-c", TELL)
        (first,) = await daemon.intake.write("acme-a", [b"x"], PLAIN)
        (third,) = await jobs_of(daemon, "acme-c")
        (second,) = await jobs_of(daemon, "acme-b")
        assert origin_of(second.job.options) == Origin(first, "a", "ok")
        assert json.loads(third.job.options) == {
            "chain": 2,
            "follows": {"id": second.job.id, "type": "b", "code": "ok"},
        }


async def test_a_parent_knows_it_still_when_it_runs_again(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-a", "pass", then="album")
        body = "if not ctx.children: ctx.enqueue('piece', child=True)\nreturn [ctx.follows['id'], len(ctx.children)]"
        await register(daemon, "acme-album", body)
        await register(daemon, "acme-piece", "pass")
        (job_id,) = await daemon.intake.write("acme-a", [b"x"], PLAIN)
        (found,) = await jobs_of(daemon, "acme-album")
        album = await ended(daemon, found.job.id)
        assert album.outcome is not None
        assert json.loads(album.outcome.result or b"") == [job_id, 1]


async def test_what_is_made_in_the_write_that_ends_a_run_knows_it_too(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-a", "ctx.enqueue('other', unique='u')", then="next")
        (job_id,) = await daemon.intake.write("acme-a", [b"x"], PLAIN)
        (found,) = await jobs_of(daemon, "acme-next", state=JobState.WAITING)
        assert origin_of(found.job.options) == Origin(job_id, "a", "ok")
        (other,) = await jobs_of(daemon, "acme-other", state=JobState.WAITING)
        assert other.job.options == "", "it was asked for, and follows from nothing"


async def test_a_refusal_is_of_the_job_that_was_refused(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-a", "print('J: next?bogus=1|x')", on_failure="alarm")
        (job_id,) = await daemon.intake.write("acme-a", [b"x"], PLAIN)
        (found,) = await jobs_of(daemon, "acme-alarm", state=JobState.WAITING)
        assert origin_of(found.job.options) == Origin(job_id, "a", "failed")


async def test_a_job_that_was_given_up_before_it_ran_is_followed(tmp_path: Path) -> None:
    """Its attempts were used up by daemons that vanished."""
    async with running_daemon(tmp_path) as daemon:
        (job_id,) = await daemon.intake.write("acme-a", [b"x"], PLAIN)
        await daemon.intake.flush()
        now_ms = daemon.clock.now_ms()
        (job,) = await daemon.store.claim_jobs("acme-a", 1, owner=daemon.sysid, lease_ms=60_000, now_ms=now_ms)
        daemon.executor._batches._give_up([job], Afterwards("", "alarm"))
        (found,) = await jobs_of(daemon, "acme-alarm", state=JobState.WAITING)
        assert origin_of(found.job.options) == Origin(job_id, "a", Code.ABANDONED)


@pytest.mark.parametrize(("exitcode", "code"), [(200, "ok"), (404, "failed"), (500, "abandoned")])
async def test_a_worker_passes_it_on_and_is_told(tmp_path: Path, exitcode: int, code: str) -> None:
    async with open_shop(tmp_path) as shop:
        await shop.serve("resize", then="seen", on_failure="seen", options={"max_attempts": 1})
        await shop.serve("seen")
        (job_id,) = await shop.post("x")
        (job,) = await shop.take()
        assert await shop.report(job, exitcode) is Answer.OK
        await shop.daemon.intake.flush()
        (follower,) = await shop.take("seen", wait_s=30)
        assert origin_of(follower.job.options) == Origin(job_id, "resize", code)

"""What a job is told of the one whose result it gets: the same in every language, for each job of a batch."""

import json

import pytest

from handlers.model import Handler
from runner.protocol import ParentJob
from runner.runner import Runner
from tests.support.engines import Run, behaviours, handler, jobs, need_language, print_environment, run
from vocabulary.origin import Origin, with_origin

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIRST, SECOND = Origin("20261114T235959123Z-a7-00001f", "add.up:1-x", "failed"), Origin("j2", "b", "ok")


def after(origin: Origin) -> str:
    return with_origin('{"chain":1}', origin.note)


@pytest.mark.parametrize("lang", behaviours("follows"))
async def test_each_job_knows_which_it_follows(runner: Runner, lang: str) -> None:
    made = handler(lang, "follows")
    options = [after(FIRST), "", after(SECOND), '{"colour":"red green"}']
    batch = [job._replace(options=text) for job, text in zip(jobs(*"abcd"), options, strict=True)]
    seen = await run(runner, made, batch)
    told = [json.loads(result) for result in seen.results]
    assert told == [
        [job.id, origin and origin._asdict()] for job, origin in zip(batch, [FIRST, None, SECOND, None], strict=True)
    ]
    alone = await run(runner, made, batch[:1])
    assert json.loads(alone.results[0]) == told[0]
    later = await run(runner, made, jobs("a"))
    assert json.loads(later.results[0]) == [batch[0].id, None], "what was told of the batch before is forgotten"


async def test_a_parent_may_follow_another_job(runner: Runner) -> None:
    (job,) = jobs("x")
    parent = ParentJob(job.id, job.data, job.attempts, b'[{"id": "c1"}]', after(FIRST))
    seen = Run()
    made = Handler("python", "return [ctx.id, ctx.follows['id'], ctx.children]")
    await runner.run_jobs("acme-test", [parent], made, seen.hear)
    assert json.loads(seen.results[0]) == [job.id, FIRST.id, [{"id": "c1"}]]


@pytest.mark.slow
async def test_wasm_has_it_in_its_environment(runner: Runner) -> None:
    need_language("wasm")
    first, second = jobs("x", "y")
    seen = await run(
        runner, Handler("wasm", print_environment(), memory_mb=192), [first._replace(options=after(FIRST)), second]
    )
    told, nothing = [set(stopped.log.decode().split("\0")) for stopped in seen.stopped]
    assert {f"JOB_FOLLOWS={FIRST.id}", f"JOB_FOLLOWS_TYPE={FIRST.type}", "JOB_FOLLOWS_CODE=failed"} <= told
    assert f"JOB_ID={first.id}" in told
    assert not [word for word in nothing if word.startswith("JOB_FOLLOWS")]

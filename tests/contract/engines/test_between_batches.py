"""Between two batches a context is nobody's: a cancelled one does not go on in it, and late words reach no job."""

import asyncio

import pytest

from handlers.model import Handler
from runner.pool import ContextKey
from runner.runner import Runner
from tests.support.engines import Run, jobs, run
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNTING = """
import builtins, time
builtins.runs = getattr(builtins, "runs", 0) + 1
print("begun", flush=True)
if payload == "long": time.sleep(100)
return builtins.runs
"""
CHATTY = """
import os, threading
if payload == "talk later": threading.Timer(0.3, os.write, [1, b"late words\\nJ: spam|x\\n"]).start()
return payload
"""


async def test_a_cancelled_batch_ends_its_context(runner: Runner) -> None:
    handler = Handler("python", COUNTING, timeout_s=100)
    assert (await run(runner, handler, jobs("a", "b"))).results == [b"1", b"2"]
    heard = Run()
    task = asyncio.create_task(runner.run_jobs("acme-test", jobs("quick", "long"), handler, heard.hear))

    async def is_at_the_long_one() -> bool:
        return len(heard.stopped) == 1

    await until(is_at_the_long_one)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        assert (await run(runner, handler, jobs("c"))).results == [b"1"], "a context of its own, which counts anew"


async def test_what_is_printed_between_batches_reaches_no_job(runner: Runner) -> None:
    handler = Handler("python", CHATTY)
    await run(runner, handler, jobs("talk later"), "acme-chatty")
    key = ContextKey.of("acme", handler)
    (context,) = [seat.context for seat in runner._pool._all_idle() if seat.key == key]

    async def has_talked() -> bool:
        return context.log.total_bytes > 0

    await until(has_talked)
    seen = await run(runner, handler, jobs("listen"), "acme-chatty")
    assert context.jobs_run == 2, "the same context"
    assert [(one.log, one.new_jobs) for one in seen.stopped] == [(b"", ())]

"""A look at a job while it runs: what it has printed, and its progress, in every language that has a context."""

import asyncio
import json

import pytest

from handlers.model import Handler
from runner.glimpse import Glimpse
from runner.runner import Runner
from tests.support.engines import Run, jobs, need_language, wasi
from tests.support.service import until
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODIES = {
    "python": """
import time
print('one')
time.sleep(0.05)
print('two')
print('J: more|work')
print('three')
ctx.progress({'at': 3})
while True: time.sleep(1)
""",
    "node": """async (payload, ctx) => {
    const wait = (ms) => new Promise((done) => setTimeout(done, ms));
    console.log('one'); await wait(50); console.log('two'); console.log('J: more|work'); console.log('three');
    ctx.progress({ at: 3 });
    await wait(3600_000);
}""",
    "php": """
echo "one\\n"; usleep(50000); echo "two\\n"; echo "J: more|work\\n"; echo "three\\n";
$ctx->progress(['at' => 3]);
sleep(3600);
""",
    "sh": "echo one; echo two; echo 'J: more|work'; echo three; echo 'P: {\"at\": 3}'; sleep 3600",
}


@pytest.mark.parametrize("lang", BODIES)
async def test_lines_and_progress_are_seen_while_it_runs(runner: Runner, lang: str) -> None:
    need_language(lang)
    batch = jobs("x")
    seen = Run()
    made = Handler(lang, BODIES[lang], timeout_s=3600, memory_mb=192)
    run = asyncio.create_task(runner.run_jobs("acme-test", batch, made, seen.hear))
    try:

        async def has_told() -> Glimpse | None:
            glimpse = runner.glimpse("acme", batch[0].id, 0)
            return glimpse if glimpse is not None and glimpse.progress and b"three" in glimpse.text else None

        glimpse = await until(has_told)
        assert glimpse.text == b"one\ntwo\nthree\n"
        assert glimpse.progress.replace(b" ", b"") == b'{"at":3}'
        assert runner.glimpse("acme", batch[0].id, glimpse.offset) == glimpse._replace(text=b"")
        assert runner.glimpse("acme", batch[0].id, 4) == glimpse._replace(text=b"two\nthree\n")
        assert runner.glimpse("other", batch[0].id, 0) is None
    finally:
        runner.cancel("acme", batch[0].id)
        await run
    assert runner.glimpse("acme", batch[0].id, 0) is None
    assert seen.stopped[0].log == b"one\ntwo\nthree\n", "what was looked at is still its log"


TOLD_AT_ONCE = {
    "python": "import time\nctx.progress('first'), ctx.progress(payload)\nif payload == '1': time.sleep(3600)",
    "node": """async (payload, ctx) => {
    ctx.progress('first'); ctx.progress(payload);
    if (payload === '1') await new Promise((done) => setTimeout(done, 3600_000));
}""",
    "php": "$ctx->progress('first'); $ctx->progress($payload); if ($payload === '1') sleep(3600);",
}


@pytest.mark.parametrize("lang", TOLD_AT_ONCE)
async def test_what_a_job_tells_in_its_first_moment_counts_whatever_was_told_before(runner: Runner, lang: str) -> None:
    """A process that has just begun, a job before it in the batch: neither uses up what this job may tell."""
    need_language(lang)
    batch = jobs("0", "1")
    made = Handler(lang, TOLD_AT_ONCE[lang], timeout_s=3600, memory_mb=192)
    run = asyncio.create_task(runner.run_jobs("acme-test", batch, made, Run().hear))

    async def has_told() -> bool:
        glimpse = runner.glimpse("acme", batch[1].id, 0)
        return glimpse is not None and glimpse.progress == b'"1"'

    await until(has_told)
    runner.cancel("acme", batch[1].id)
    await run


NOT_UNICODE = {
    "python": "import time\nctx.progress({'caf\\udce9': '\\\\ud83d \\ud83d \U0001f600'})\ntime.sleep(3600)",
    "node": """async (payload, ctx) => {
    ctx.progress({ 'caf\\udce9': '\\\\ud83d \\ud83d \U0001f600' });
    await new Promise((done) => setTimeout(done, 3600_000));
}""",
    "sh": """printf 'P: {"caf\\351": "\\\\\\\\ud83d \\\\ud83d \U0001f600"}\\n'; sleep 3600""",
}


@pytest.mark.parametrize("lang", NOT_UNICODE)
async def test_progress_that_is_not_unicode_is_shown_as_well_as_can_be(runner: Runner, lang: str) -> None:
    need_language(lang)
    batch = jobs("x")
    seen = Run()
    made = Handler(lang, NOT_UNICODE[lang], timeout_s=3600, memory_mb=192)
    run = asyncio.create_task(runner.run_jobs("acme-test", batch, made, seen.hear))

    async def has_told_or_ended() -> bytes | None:
        glimpse = runner.glimpse("acme", batch[0].id, 0)
        return b"null" if run.done() else glimpse and glimpse.progress

    told = await until(has_told_or_ended)
    runner.cancel("acme", batch[0].id)
    await run
    assert json.loads(told) == {"caf\ufffd": "\\ud83d \ufffd \U0001f600"}, seen.stopped


async def test_progress_of_a_quick_job_is_not_the_next_ones(runner: Runner) -> None:
    batch = jobs("0", "1")
    body = "import time\nif payload == '0': ctx.progress('of the first')\nelse: time.sleep(3600)"
    seen = Run()
    run = asyncio.create_task(runner.run_jobs("acme-test", batch, Handler("python", body, timeout_s=3600), seen.hear))

    async def first_is_over() -> bool:
        return bool(seen.stopped)

    await until(first_is_over)
    assert runner.glimpse("acme", batch[1].id, 0) == Glimpse(attempt=batch[1].attempts)
    runner.cancel("acme", batch[1].id)
    await run


async def test_a_printed_line_tells_progress_in_wasm_too_and_is_no_part_of_the_log(runner: Runner) -> None:
    need_language("wasm")
    body = wasi("(call $print (i32.const 100) (i32.const 8))", '(data (i32.const 100) "P: 50\\0aok")')
    seen = Run()
    await runner.run_jobs("acme-test", jobs("x"), Handler("wasm", body, memory_mb=192), seen.hear)
    assert (seen.stopped[0].code, seen.stopped[0].log) == ("ok", b"ok")


async def test_new_jobs_of_a_job_that_was_watched_are_made(runner: Runner) -> None:
    for lang, text in BODIES.items():
        need_language(lang)
        body = text
        for endless in ("while True: time.sleep(1)", "sleep(3600);", "; sleep 3600", "await wait(3600_000);"):
            body = body.replace(endless, "")
        seen = Run()
        await runner.run_jobs("acme-test", jobs("x"), Handler(lang, body, memory_mb=192), seen.hear)
        assert (seen.stopped[0].code, seen.stopped[0].new_jobs) == ("ok", (NewJob("more", b"work"),)), lang
        assert seen.stopped[0].log == b"one\ntwo\nthree\n", lang


@pytest.mark.parametrize("value", ["'x' * 2000", "object()", "float('nan')", "{'at': float('inf')}"])
async def test_progress_that_cannot_be_shown_is_an_error_of_the_handler(runner: Runner, value: str) -> None:
    seen = Run()
    await runner.run_jobs("acme-test", jobs("x"), Handler("python", f"ctx.progress({value})"), seen.hear)
    assert seen.stopped[0].code == "error"


BETWEEN_THE_BYTES = """import os, threading
write = os.write
def tell_while_it_is_written(fd, data):
    if len(data) < 1_000_000: return write(fd, data)
    os.write = write
    written = write(fd, data[:50_000])
    late = threading.Thread(target=ctx.progress, args=('late',))
    late.start()
    late.join()
    return written
os.write = tell_while_it_is_written
ctx.progress('early')
return b'x' * 3_000_000"""


async def test_what_a_thread_tells_while_a_big_result_is_written_is_no_part_of_it(runner: Runner) -> None:
    seen = Run()
    await runner.run_jobs("acme-test", jobs("0", "1"), Handler("python", BETWEEN_THE_BYTES), seen.hear)
    assert [(one.exitcode, one.result == b"x" * 3_000_000) for one in seen.stopped] == [(200, True)] * 2


async def test_a_job_that_is_over_tells_nothing_as_the_next_one(runner: Runner) -> None:
    batch = jobs("0", "1")
    body = """import time
if payload == '0': first = ctx
else:
    ctx.progress('of the second'); first.progress('of the first')
    time.sleep(0.03); print('both have told'); time.sleep(3600)"""
    made = Handler("python", "global first\n" + body, timeout_s=3600)
    run = asyncio.create_task(runner.run_jobs("acme-test", batch, made, Run().hear))

    async def both_have_told() -> Glimpse | None:
        glimpse = runner.glimpse("acme", batch[1].id, 0)
        return glimpse if glimpse is not None and glimpse.text else None

    glimpse = await until(both_have_told)
    runner.cancel("acme", batch[1].id)
    await run
    assert glimpse.progress == b'"of the second"'


@pytest.mark.parametrize(
    ("lang", "body", "before_each"),
    [
        ("python", "global last\nlast = ctx", "if 'last' in globals(): last.progress('late')"),
        ("sh", "true", "echo 'P: 1'; yes | head -c 100000"),
    ],
)
async def test_what_is_told_in_a_hook_is_no_jobs_progress(
    runner: Runner, lang: str, body: str, before_each: str
) -> None:
    made = Handler(lang, body, before_each=before_each)
    for _ in range(2):
        seen = Run()
        await runner.run_jobs("acme-test", jobs("x"), made, seen.hear)
        assert [one.exitcode for one in seen.stopped] == [200], seen.stopped

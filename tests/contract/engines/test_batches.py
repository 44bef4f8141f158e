"""A batch: who pays for a crash or a timeout, what is given back, hooks around it, reporting as jobs stop."""

import asyncio
from collections.abc import Sequence

import pytest

from handlers.model import Handler
from runner.outcome import Stopped
from runner.runner import Runner
from tests.support.engines import Run, behaviours, handler, jobs, languages, run
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAYLOADS = ("0", "1", "2", "3", "4")


@pytest.mark.parametrize("lang", behaviours("crash_at_2"))
async def test_a_crash_costs_only_the_job_that_was_running(runner: Runner, lang: str) -> None:
    batch = jobs(*PAYLOADS)
    seen = await run(runner, handler(lang, "crash_at_2"), batch)
    assert [one.code for one in seen.stopped] == ["ok", "ok", "error"]
    assert seen.stopped[2].id == batch[2].id
    assert b"ended" in seen.results[2]
    assert seen.given_back == [batch[3].id, batch[4].id]


@pytest.mark.parametrize("lang", behaviours("spin_at_2"))
async def test_a_timeout_costs_only_the_job_that_was_running(runner: Runner, lang: str) -> None:
    batch = jobs(*PAYLOADS)
    seen = await run(runner, handler(lang, "spin_at_2", timeout_s=0.5), batch)
    assert seen.exitcodes == [200, 200, 504]
    assert b"timed out after 0.5 s" in seen.results[2]
    assert seen.given_back == [batch[3].id, batch[4].id]


async def test_a_job_that_is_asked_to_stop_can_clean_up_and_say_where_it_was(runner: Runner) -> None:
    body = "import time\ntry:\n    print('working')\n    time.sleep(60)\nfinally:\n    print('cleaned up')"
    seen = await run(runner, Handler("python", body, timeout_s=0.2), jobs("x"))
    assert seen.exitcodes == [504]
    assert seen.stopped[0].log == b"working\ncleaned up\n"
    assert b"time.sleep(60)" in seen.results[0], "the traceback shows where it was"


@pytest.mark.parametrize(
    ("lang", "body"),
    [
        ("python", "import os, time\nprint('early'); time.sleep(0.05); print('late'); os._exit(3)"),
        ("python", "import time, re\nprint('early'); time.sleep(0.05); print('late'); re.match('(a+)+b', 'a' * 64)"),
        (
            "node",
            """async () => { console.log('early'); await new Promise((done) => setTimeout(done, 50));
            console.log('late'); process.reallyExit(3) }""",
        ),
    ],
)
async def test_what_a_slow_job_printed_survives_its_end(runner: Runner, lang: str, body: str) -> None:
    """The middle one is stuck below python, where no signal is heard: it is killed and cannot say anything more."""
    seen = await run(runner, Handler(lang, body, timeout_s=0.5, memory_mb=192), jobs("x"))
    assert seen.stopped[0].code == "error"
    assert seen.stopped[0].log == b"early\nlate\n"


async def test_a_slow_job_makes_new_jobs_and_logs_as_a_quick_one(runner: Runner) -> None:
    body = """import time
print('J: mail|early'); print('one'); time.sleep(0.03); print('two'); print('J: mail|late'); print('J: nonsense')"""
    seen = await run(runner, Handler("python", body), jobs("x"))
    assert seen.stopped[0].new_jobs == (NewJob("mail", b"early"), NewJob("mail", b"late"))
    assert seen.stopped[0].log == b"one\ntwo\nJ: nonsense [not a new job: write J: type|payload]\n"
    many = "import time\ntime.sleep(0.03)\nfor i in range(2000): print('J: mail|x')"
    seen = await run(runner, Handler("python", many), jobs("x"))
    assert (seen.exitcodes, seen.results) == ([413], [b"made more than 1000 new jobs"])


async def test_a_job_that_ignores_being_asked_is_killed_with_its_tree(runner: Runner) -> None:
    body = "trap '' TERM; sleep 300 & echo started; while :; do :; done"
    seen = await run(runner, Handler("sh", body, timeout_s=0.3), jobs("x", "y"))
    assert seen.exitcodes == [504]
    assert len(seen.given_back) == 1


@pytest.mark.parametrize("lang", ["python", "node"])
async def test_the_time_limit_is_per_job_not_per_batch(runner: Runner, lang: str) -> None:
    bodies = {
        "python": "import time; time.sleep(0.15)",
        "node": "() => new Promise((done) => setTimeout(done, 150))",
    }
    seen = await run(runner, Handler(lang, bodies[lang], timeout_s=0.6, memory_mb=192), jobs(*"abcdef"))
    assert seen.exitcodes == [200] * 6


async def test_an_error_outside_the_handler_belongs_to_the_job_and_ends_the_context(runner: Runner) -> None:
    body = """(payload) => new Promise((done) => {
        if (payload === '1') setTimeout(() => { throw new Error('escaped') }, 1); else done(payload) })"""
    batch = jobs("0", "1", "2")
    seen = await run(runner, Handler("node", body, memory_mb=192), batch)
    assert seen.exitcodes == [200, 500]
    assert b"escaped" in seen.results[1]
    assert seen.given_back == [batch[2].id], "the job after it never started, so it pays nothing"


@pytest.mark.parametrize(
    ("lang", "body", "exitcode", "told"),
    [
        (
            "node",
            """(payload) => new Promise((done) => {
            if (payload === 'last') setTimeout(() => { throw new Error('escaped') }, 1); else done() })""",
            500,
            b"escaped",
        ),
        ("sh", 'read -r word || :; [ "$word" != last ] || kill -9 $$', 500, b"SIGKILL"),
    ],
)
async def test_an_error_that_ends_the_context_is_not_the_hooks(
    runner: Runner, lang: str, body: str, exitcode: int, told: bytes
) -> None:
    handler(lang, "nothing")
    seen = await run(
        runner, Handler(lang, body, after_each="1" if lang == "node" else ":", memory_mb=192), jobs("first", "last")
    )
    assert seen.exitcodes == [200, exitcode]
    assert told in seen.results[1]


async def test_jobs_are_reported_as_they_stop(runner: Runner) -> None:
    """The second job waits for a file that appears only when the first has been heard of."""
    first_heard = asyncio.Event()
    seen = Run()

    def hear(stopped: Sequence[Stopped]) -> None:
        seen.hear(stopped)
        first_heard.set()

    body = "import time\nif payload == '1': time.sleep(60)"
    batch = jobs("0", "1")
    task = asyncio.create_task(runner.run_jobs("acme-test", batch, Handler("python", body), hear))
    await asyncio.wait_for(first_heard.wait(), 20)
    assert [one.id for one in seen.stopped] == [batch[0].id]
    assert [runner.running_tenant(job.id) for job in batch] == ["", "acme"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runner.gauges()["running_jobs"] == 0


HOOKS = {
    "python": (
        "trace = ['before']",
        "trace.append('beforeEach')",
        "return list(trace)",
        "trace.append('afterEach')",
    ),
    "node": (
        "globalThis.trace = ['before']",
        "trace.push('beforeEach')",
        "() => [...trace]",
        "trace.push('afterEach')",
    ),
    "sh": (
        "trace='\"before\"'",
        'trace="$trace,\\"beforeEach\\""',
        'echo "S: 200 [$trace]"',
        'trace="$trace,\\"afterEach\\""',
    ),
    "php": (
        "$GLOBALS['trace'] = ['before'];",
        "$GLOBALS['trace'][] = 'beforeEach';",
        "return $GLOBALS['trace'];",
        "$GLOBALS['trace'][] = 'afterEach';",
    ),
}


@pytest.mark.parametrize("lang", languages(*HOOKS))
async def test_hooks_run_once_per_context_and_once_per_batch(runner: Runner, lang: str) -> None:
    handler(lang, "nothing")  # skips when the language is not there
    before, before_each, body, after_each = HOOKS[lang]
    made = Handler(lang, body, before, before_each, after_each, memory_mb=192)
    first = await run(runner, made, jobs("a", "b"))
    second = await run(runner, made, jobs("c"))
    assert first.results == [b'["before","beforeEach"]'] * 2
    assert second.results == [b'["before","beforeEach","afterEach","beforeEach"]']


BROKEN = {
    "python": "raise ValueError('hook')",
    "node": "throw new Error('hook')",
    "sh": "echo hook; false",
    "php": "throw new Exception('hook');",
}


@pytest.mark.parametrize("lang", languages(*BROKEN))
@pytest.mark.parametrize("hook", ["before", "before_each", "after_each"])
async def test_a_hook_that_fails_is_an_error_of_the_batch(runner: Runner, lang: str, hook: str) -> None:
    made = handler(lang, "nothing", **{hook: BROKEN[lang]})
    seen = await run(runner, made, jobs("a", "b"))
    assert seen.exitcodes == [500, 500]
    name = {"before": "before", "before_each": "beforeEach", "after_each": "afterEach"}[hook]
    assert all(result.startswith(f"{name} failed: ".encode()) and b"hook" in result for result in seen.results)


@pytest.mark.parametrize("hook", ["before_each", "after_each"])
async def test_a_crash_in_a_hook_is_an_error_of_the_batch(runner: Runner, hook: str) -> None:
    name = {"before_each": b"beforeEach", "after_each": b"afterEach"}[hook]
    seen = await run(runner, Handler("python", "pass", **{hook: "import os; os._exit(9)"}), jobs("a", "b"))  # type: ignore[arg-type]  # one of two str fields
    assert seen.exitcodes == [502, 502]
    assert all(result.startswith(name + b" failed: ") for result in seen.results)


async def test_a_context_that_ends_right_after_its_batch_has_still_done_it(runner: Runner) -> None:
    after_each = "import os, struct\nos.write(4, struct.pack('<IBBHII', 0, 6, 0, 0, 1, 0)); os._exit(0)"
    seen = await run(runner, Handler("python", "return payload", after_each=after_each), jobs("a", "b"))
    assert seen.results == [b'"a"', b'"b"']


@pytest.mark.parametrize("lang", languages())
async def test_five_hundred_at_once(runner: Runner, lang: str) -> None:
    count = 500 if lang in {"python", "node", "php"} else 50
    batch = jobs(*map(str, range(count)))
    seen = await run(runner, handler(lang, "echo"), batch)
    assert [one.id for one in seen.stopped] == [job.id for job in batch]
    assert seen.results == [f'"{number}"'.encode() for number in range(count)]


async def test_more_than_one_message_can_hold(runner: Runner) -> None:
    batch = jobs(*[bytes([65 + number]) * 3_000_000 for number in range(8)])
    seen = await run(runner, Handler("python", "return [payload[0], len(payload)]"), batch)
    assert seen.results == [f'["{chr(65 + number)}",3000000]'.encode() for number in range(8)]


async def test_big_results_come_whole(runner: Runner) -> None:
    seen = await run(runner, Handler("python", "return b'x' * int(payload)"), jobs("10000000", "1", "3000000"))
    assert [len(result) for result in seen.results] == [10_000_000, 1, 3_000_000]


async def test_the_callers_own_error_is_raised_when_the_batch_is_over(runner: Runner) -> None:
    def hear(_: object) -> None:
        raise LookupError("the caller's")

    with pytest.raises(LookupError):
        await runner.run_jobs("acme-test", jobs("a", "b"), Handler("python", "pass"), hear)
    assert runner.gauges()["running_jobs"] == 0


@pytest.mark.parametrize("lang", behaviours("nothing"))
async def test_many_quick_jobs_in_a_row_use_nothing_up(runner: Runner, lang: str) -> None:
    """More of them than a context may have open files, so that one left open by each would be noticed."""
    count = 300 if lang == "sh" else 3000
    seen = await run(runner, handler(lang, "nothing"), jobs(*["x"] * count))
    assert set(seen.exitcodes) == {200}


ONCE = '[ -e "$TMPDIR/done" ] || { : >"$TMPDIR/done"; %s; }'


@pytest.mark.parametrize("hook", ["before_each", "after_each"])
@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$", "set -e; false; true", "echo nonsense >&9"])
async def test_a_hook_that_ends_the_shell_costs_one_batch(runner: Runner, hook: str, end: str) -> None:
    hooks = {hook: ONCE % end}
    made = Handler("sh", 'echo "S: 200 $greeting"', before="greeting=hello; printf loading", **hooks)  # type: ignore[arg-type]
    seen = [await run(runner, made, jobs("x")) for _ in range(3)]
    assert [one.exitcodes for one in seen] == [[500], [200], [200]]
    assert b"the shell that runs the jobs" in seen[0].results[0]
    assert [one.results for one in seen[1:]] == [[b"hello"]] * 2, "the new shell has what `before` set"


async def test_a_new_shell_hears_all_that_its_first_job_prints(runner: Runner) -> None:
    """More than a pipe holds: it would wait for ever for somebody to read it."""
    made = Handler("sh", "head -c 300000 /dev/zero", before="greeting=hello", after_each=ONCE % "exit 0", timeout_s=10)
    seen = [await run(runner, made, jobs("x")) for _ in range(2)]
    assert [one.exitcodes for one in seen] == [[500], [200]]
    assert seen[1].stopped[0].log_dropped == 283_616


async def test_a_new_shell_in_which_before_fails_is_an_error_of_each_batch(runner: Runner) -> None:
    before = '[ ! -e "$TMPDIR/done" ] || { echo no second time; exit 4; }'
    made = Handler("sh", "true", before=before, after_each=': >"$TMPDIR/done"; exit 3')
    seen = [await run(runner, made, jobs("x")) for _ in range(3)]
    assert [one.exitcodes for one in seen] == [[500]] * 3
    assert b"afterEach failed: the shell that runs the jobs ended with exit status 3" in seen[0].results[0]
    for one in seen[1:]:
        assert b"before failed: " in one.results[0]
        assert b"no second time" in one.results[0]

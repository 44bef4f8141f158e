"""Every limit has an outcome that says which limit it was; none of them costs the daemon or a neighbour."""

from dataclasses import replace

import pytest

from handlers.model import Handler
from runner.launch import Launcher, Level
from runner.limits import ContextLimits
from runner.runner import Runner, RunnerSettings
from tests.support.engines import behaviours, handler, jobs, languages, run

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("lang", behaviours("many_new_jobs"))
async def test_new_jobs_per_job(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "many_new_jobs"), jobs("x", "y"))
    assert seen.exitcodes == [413, 413]
    assert seen.results[0] == b"made more than 1000 new jobs"
    assert seen.stopped[0].new_jobs == ()


@pytest.mark.parametrize("lang", behaviours("new_job_too_big"))
async def test_a_new_job_that_is_too_big_leaves_no_other_of_that_run(runner: Runner, lang: str) -> None:
    """All or nothing, also what it printed and what it carried on."""
    (stopped,) = (await run(runner, handler(lang, "new_job_too_big"), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.new_jobs, stopped.carried) == (413, (), None)
    assert stopped.result == b"made a new job of more than 1048576 bytes"


async def test_a_new_job_that_was_refused_takes_no_room(runner: Runner) -> None:
    body = """for _ in range(20):
    try: ctx.enqueue('mail', 'x' * (1 << 20))
    except Exception: pass
ctx.enqueue('mail', 'y')"""
    (stopped,) = (await run(runner, Handler("python", body), jobs("x"))).stopped
    assert (stopped.exitcode, [new.payload for new in stopped.new_jobs]) == (200, [b"y"])


async def test_also_of_a_slow_run_whose_lines_were_sent_before(runner: Runner) -> None:
    body = """import time
time.sleep(0.03); print('J: mail|early'); time.sleep(0.03); ctx.enqueue('mail', 'x' * (1 << 20))"""
    (stopped,) = (await run(runner, Handler("python", body), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.new_jobs, stopped.log) == (413, (), b"")


@pytest.mark.parametrize(
    ("lang", "body"),
    [
        ("python", "import time; time.sleep(0.03); print('a'); print('J: mail|', end=''); print(payload); print('b')"),
        (
            "node",
            """async (p) => { await new Promise((r) => setTimeout(r, 30)); console.log('a');
            process.stdout.write('J: mail|'); console.log(p); console.log('b') }""",
        ),
    ],
)
async def test_new_jobs_of_a_slow_job_are_its_own(runner: Runner, lang: str, body: str) -> None:
    handler(lang, "nothing")
    seen = await run(runner, Handler(lang, body, memory_mb=192), jobs("x", "y", "z"))
    assert [[new.payload for new in one.new_jobs] for one in seen.stopped] == [[b"x"], [b"y"], [b"z"]]
    assert b"".join(one.log for one in seen.stopped) == b"a\nb\n" * 3


async def test_a_line_that_one_job_left_open_is_not_the_next_ones(runner: Runner) -> None:
    body = """async (p) => { if (p !== 'open') return console.log('J: mail|' + p);
        await new Promise((done) => setTimeout(done, 50)); process.stdout.write('abc') }"""
    seen = await run(runner, Handler("node", body, memory_mb=192), jobs("open", "x"))
    assert [[new.payload for new in one.new_jobs] for one in seen.stopped] == [[], [b"x"]]
    assert b"".join(one.log for one in seen.stopped) == b"abc"


@pytest.mark.parametrize("lang", behaviours("much_log"))
async def test_the_end_of_a_long_log_is_kept(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "much_log"), jobs("x"))
    log = seen.stopped[0].noted_log
    assert seen.exitcodes == [200]
    assert len(log) < 20_000
    assert log.startswith(b"[")
    assert b"bytes before this were dropped]\n" in log


@pytest.mark.parametrize(
    "body",
    [
        "print('x' * 999_999)",
        "print('x' * 999_999); time.sleep(60)",
        "time.sleep(0.03); print('x' * 999_999)",
        "print('x' * 499_999); time.sleep(0.03); print('x' * 499_999)",
        "print('x' * 499_999); subprocess.run(['head', '-c', '500000', '/dev/zero'])",
        "time.sleep(0.03); print('x' * 499_999); subprocess.run(['head', '-c', '500000', '/dev/zero'])",
    ],
)
@pytest.mark.parametrize("after_each", ["", "print('y' * 99); raise ValueError"], ids=["", "afterEach fails"])
async def test_the_bytes_of_a_log_that_are_not_kept_are_counted(runner: Runner, body: str, after_each: str) -> None:
    """Also those of one that is asked to stop, and of one whose afterEach fails, which prints into the same log."""
    made = Handler("python", f"import subprocess, time; {body}", after_each=after_each, timeout_s=1)
    (stopped,) = (await run(runner, made, jobs("x"))).stopped
    log = stopped.log
    printed = 1_000_100 if log.endswith(b"y\n") else 1_000_000
    assert stopped.log_dropped == printed - len(log)
    assert 16_000 < len(log) <= 16_384


@pytest.mark.parametrize("lang", behaviours("endless_line"))
async def test_one_endless_line(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "endless_line"), jobs("x"))
    assert seen.exitcodes == [200]
    assert 10_000 < len(seen.stopped[0].log) < 20_000


@pytest.mark.parametrize(
    ("lang", "body"),
    [
        ("python", "return 'x' * 17_000_000"),
        ("node", "() => 'x'.repeat(17000000)"),
        pytest.param("php", "return str_repeat('x', 17000000);", marks=pytest.mark.slow),
    ],
)
async def test_result_bytes(runner: Runner, lang: str, body: str) -> None:
    handler(lang, "nothing")
    seen = await run(runner, Handler(lang, body, memory_mb=512), jobs("x"))
    assert seen.exitcodes == [413]
    assert seen.results == [b"returned 17000002 bytes, the limit is 16777216"]


@pytest.mark.parametrize(
    ("mark", "size", "says"),
    [
        ("S: 200 ", 2_000_000, b""),
        ("#S: 200 ", 16 << 20, b""),
        ("S: 200 ", 17_000_000, b"printed a result of more than 16777216 bytes"),
        ("C: ", 1 << 20, b""),
        ("C: ", 2_000_000, b"printed a line to carry on of more than 1048576 bytes"),
        ("J: mail|", (1 << 20) - len("mail|"), b""),
        ("J: mail|", 2_000_000, b"printed a new job line of more than 1048576 bytes"),
        ("P: ", 2_000_000, b"printed a progress line of more than 1048576 bytes"),
    ],
)
async def test_a_marked_line_has_the_limit_of_what_it_says(runner: Runner, mark: str, size: int, says: bytes) -> None:
    """In pieces, and without an end: how much of it came at once makes no difference."""
    body = f"printf '{mark}'; head -c {size} /dev/zero | tr '\\0' x"
    [stopped] = (await run(runner, Handler("sh", body, memory_mb=512), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.result[:200]) == ((413, says) if says else (200, stopped.result[:200]))
    left = [stopped.result, stopped.carried or b"", *(new.payload for new in stopped.new_jobs)]
    assert says or max(map(len, left)) == size


async def test_a_new_job_line_without_end(runner: Runner) -> None:
    seen = await run(runner, Handler("python", "print('J: mail|' + 'x' * 3_000_000)"), jobs("x"))
    assert seen.exitcodes == [413]
    assert b"new job" in seen.results[0]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("files = [open('/dev/null') for _ in range(400)]", b"limit reached: at most 256 open files"),
        ("open('big', 'wb').truncate(100 << 20)", b"limit reached: a file may have at most 64 MB"),
    ],
)
async def test_open_files_and_file_size(runner: Runner, body: str, says: bytes) -> None:
    seen = await run(runner, Handler("python", body), jobs("x"))
    assert seen.exitcodes == [500]
    assert seen.results[0].endswith(says)


async def test_node_says_which_limit_it_was(runner: Runner) -> None:
    body = "() => { const fs = require('fs'); for (let i = 0; i < 400; i++) fs.openSync('/dev/null') }"
    seen = await run(runner, Handler("node", body, memory_mb=192), jobs("x"))
    assert seen.results[0].endswith(b"limit reached: at most 256 open files")


async def test_sh_says_which_limit_it_was(runner: Runner) -> None:
    body = "exec dd if=/dev/zero of=big bs=1048576 count=100 2>/dev/null"
    seen = await run(runner, Handler("sh", body), jobs("x"))
    assert seen.exitcodes == [500]
    assert b"at most 64 MB" in seen.results[0] + seen.stopped[0].log or b"exit status" in seen.results[0]


async def test_memory(runner: Runner, launcher: Launcher) -> None:
    if launcher.level < Level.L2:
        pytest.skip("the plain launcher promises no limit of memory")
    batch = jobs("0", "1", "2")
    body = "if payload == '1': ballast = b'x' * (1 << 30)"
    seen = await run(runner, Handler("python", body, memory_mb=64), batch)
    assert seen.exitcodes in ([200, 507], [200, 507, 200])
    assert b"out of memory: the limit is 64 MB" in seen.results[1]


IN_A_PROGRAM = {
    "sh": """read -r n || :
[ "$n" != 1 ] || exec dd if=/dev/zero of=/dev/null bs=1G count=1
[ "$n" != 2 ] || exit 3""",
    "python": """import subprocess
if payload == '1': subprocess.run(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1G', 'count=1'], check=True)
if payload == '2': raise OSError""",
}


@pytest.mark.parametrize("lang", IN_A_PROGRAM)
async def test_memory_of_a_program_that_the_job_starts(runner: Runner, launcher: Launcher, lang: str) -> None:
    if launcher.level < Level.L2:
        pytest.skip("the plain launcher promises no limit of memory")
    made = Handler(lang, IN_A_PROGRAM[lang], memory_mb=64)
    seen = await run(runner, made, jobs("0", "1"))
    assert seen.exitcodes == [200, 507]
    assert seen.results[1].startswith(b"out of memory: ")
    seen = await run(runner, made, jobs("0", "2"))
    assert seen.exitcodes == [200, 500], "an error that has nothing to do with it"


async def test_scratch_space(runner: Runner, launcher: Launcher) -> None:
    if launcher.level < Level.L2:
        pytest.skip("the plain launcher promises no limit of scratch space")
    body = "for i in range(10):\n    open(str(i), 'wb').write(b'x' * (20 << 20))"
    seen = await run(runner, Handler("python", body, memory_mb=256), jobs("x"))
    assert seen.exitcodes == [500]
    assert seen.results[0].endswith(b"limit reached: scratch space of 64 MB is full")


async def test_processes(runner: Runner, launcher: Launcher) -> None:
    if launcher.level < Level.L2:
        pytest.skip("the plain launcher promises no limit of processes")
    body = "import subprocess\nkept = [subprocess.Popen(['sleep', '60']) for _ in range(200)]"
    seen = await run(runner, Handler("python", body, memory_mb=256), jobs("x"))
    assert seen.exitcodes == [500]
    assert seen.results[0].endswith(b"limit reached: at most 64 processes and threads")


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["python", "node"])
async def test_output_without_end_is_ended(launcher: Launcher, lang: str) -> None:
    limits = replace(ContextLimits(), output_bytes=4 << 20, kill_grace_s=0.2)
    runner = Runner(launcher, RunnerSettings(limits=limits))
    bodies = {
        "python": "import subprocess; subprocess.run(['yes'])",
        "node": "() => { require('child_process').spawnSync('yes', [], {stdio: 'inherit'}) }",
    }
    seen = await run(runner, Handler(lang, bodies[lang], memory_mb=192), jobs("x", "y"))
    assert seen.exitcodes == [413]
    assert seen.results[0] == b"printed more than 4 MB; the job was ended"
    assert len(seen.given_back) == 1


@pytest.mark.parametrize("lang", languages("python", "node", "sh", "php"))
async def test_after_a_limit_the_next_batch_is_as_if_nothing_was(runner: Runner, lang: str) -> None:
    made = handler(lang, "many_new_jobs")
    await run(runner, made, jobs("x"))
    assert (await run(runner, handler(lang, "log"), jobs("x"))).stopped[0].log == b"hello\nworld\n"

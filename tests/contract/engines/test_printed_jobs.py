"""Handlers whose printed lines make no jobs: what strangers send can be printed as it is."""

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import handler, jobs, languages, run
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINES = ["J: mail|quick", "#J: mail|quick", "J: nonsense"]
PRINTS = {
    "python": "import time\n{}\ntime.sleep(0.05)\nprint('J: mail|slow')",
    "node": (
        "(payload) => {{ {}; const end = Date.now() + 50; while (Date.now() < end); console.log('J: mail|slow') }}"
    ),
    "php": "{} usleep(50000); echo 'J: mail|slow', PHP_EOL;",
    "sh": "{}\nsleep 0.05\necho 'J: mail|slow'",
}
PRINT = {"python": "print({!r})", "node": "console.log({!r})", "php": "echo {!r}, PHP_EOL;", "sh": "echo {!r}"}
JOINED = {"python": "\n", "node": "; ", "php": " ", "sh": "\n"}
ENQUEUES = {
    "python": "print('J: mail|printed')\nctx.enqueue('mail', 'asked')",
    "node": "(payload, ctx) => { console.log('J: mail|printed'); ctx.enqueue('mail', 'asked') }",
    "php": "echo 'J: mail|printed', PHP_EOL; $ctx->enqueue('mail', 'asked');",
}
OFF = {"printed_jobs": 0}


def body_of(lang: str) -> str:
    return PRINTS[lang].format(JOINED[lang].join(PRINT[lang].format(line) for line in LINES))


@pytest.mark.parametrize("lang", languages(*PRINTS))
async def test_lines_stay_in_the_log(runner: Runner, lang: str) -> None:
    handler(lang, "nothing")  # skips when the language is not there
    made = Handler(lang, body_of(lang), memory_mb=192, timeout_s=20, options=OFF)
    for _ in range(2):
        (stopped,) = (await run(runner, made, jobs("x"))).stopped
        assert (stopped.exitcode, stopped.new_jobs) == (200, ())
        assert stopped.log.decode().splitlines() == [*LINES, "J: mail|slow"]


@pytest.mark.parametrize("lang", languages(*ENQUEUES))
async def test_jobs_that_are_asked_for_are_made(runner: Runner, lang: str) -> None:
    handler(lang, "nothing")
    made = Handler(lang, ENQUEUES[lang], memory_mb=192, timeout_s=20, options=OFF)
    (stopped,) = (await run(runner, made, jobs("x"))).stopped
    assert (stopped.new_jobs, stopped.log) == ((NewJob("mail", b"asked"),), b"J: mail|printed\n")


@pytest.mark.parametrize("lang", languages("python", "node", "php", "sh"))
async def test_also_what_is_printed_while_a_context_begins(runner: Runner, lang: str) -> None:
    handler(lang, "nothing")
    before = {"python": "print({!r})", "node": "console.log({!r})", "php": "echo {!r}, PHP_EOL;", "sh": "echo {!r}"}[
        lang
    ]
    body = {"python": "pass", "node": "() => {}", "php": "return;", "sh": ":"}[lang]
    made = Handler(lang, body, before=before.format("J: mail|x"), memory_mb=192, timeout_s=20, options=OFF)
    (stopped,) = (await run(runner, made, jobs("x"))).stopped
    assert (stopped.exitcode, stopped.new_jobs) == (200, ())


@pytest.mark.parametrize("lang", languages("python", "node"))
async def test_what_one_of_them_prints_late_is_nobody_elses(runner: Runner, lang: str) -> None:
    """Two handlers of one eid, and a line that is printed when the job has ended."""
    handler(lang, "nothing")
    late, idle = {
        "python": (
            "__import__('threading').Timer(0.1, print, ['J: mail|stranger']).start()",
            "import time; time.sleep(0.3)",
        ),
        "node": (
            "() => { setTimeout(() => console.log('J: mail|stranger'), 100) }",
            "() => new Promise(done => setTimeout(done, 300))",
        ),
    }[lang]
    off = Handler(lang, late, eid="shared", memory_mb=192, timeout_s=20, options=OFF)
    on = Handler(lang, idle, eid="shared", memory_mb=192, timeout_s=20)
    await run(runner, off, jobs("x"))
    (stopped,) = (await run(runner, on, jobs("x"))).stopped
    assert (stopped.exitcode, stopped.new_jobs) == (200, ())


@pytest.mark.parametrize("lang", languages("python", "node", "php"))
async def test_handlers_that_share_a_context_have_each_their_own_way(runner: Runner, lang: str) -> None:
    """Also what a process that a handler starts prints, past the handler's own output."""
    handler(lang, "nothing")
    shell = {
        "python": "import subprocess; subprocess.run(['echo', 'J: mail|' + payload], check=True)",
        "node": "p => { require('child_process').spawnSync('echo', ['J: mail|' + p], {stdio: 'inherit'}) }",
        "php": 'echo "J: mail|$payload\\n";',
    }[lang]
    on = Handler(lang, shell, eid="shared", memory_mb=192, timeout_s=20)
    off = Handler(lang, shell + " ", eid="shared", memory_mb=192, timeout_s=20, options=OFF)
    for made, expected in ((on, (NewJob("mail", b"x"),)), (off, ()), (on, (NewJob("mail", b"x"),)), (off, ())):
        (stopped,) = (await run(runner, made, jobs("x"))).stopped
        assert stopped.new_jobs == expected
        assert (b"J: mail|x" in stopped.log) is not bool(expected)

"""What hooks print, beside what jobs print: neither runs into the other, and that of afterEach belongs to no job."""

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import handler, jobs, languages, run
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRINTS = {
    "python": "import sys; sys.stdout.write({!r})",
    "node": "process.stdout.write({!r})",
    "php": "echo stripcslashes({!r});",
    "sh": "printf %b {!r}",
}
ECHOES = {
    "python": "print('J: mail|' + payload)",
    "node": "console.log('J: mail|' + payload)",
    "php": 'echo "J: mail|$payload\\n";',
    "sh": 'read -r x || true; echo "J: mail|$x"',
}
FAILS = {"node": "throw new Error('no')", "php": "throw new Exception('no');"}


def said(lang: str, text: str) -> str:
    return PRINTS[lang].format(text)


@pytest.mark.parametrize("lang", languages(*PRINTS))
async def test_a_line_that_a_hook_left_open_ends_with_the_hook(runner: Runner, lang: str) -> None:
    handler(lang, "nothing")  # skips when the language is not there
    made = Handler(
        lang, ECHOES[lang], before=said(lang, "loading"), before_each=said(lang, "each"), memory_mb=192, timeout_s=20
    )
    for log in (b"loading\neach\n", b"each\n"):
        seen = await run(runner, made, jobs("x", "y"))
        assert [one.new_jobs for one in seen.stopped] == [(NewJob("mail", b"x"),), (NewJob("mail", b"y"),)]
        assert b"".join(one.log for one in seen.stopped) == log


@pytest.mark.parametrize("lang", languages(*PRINTS))
async def test_what_after_each_prints_is_no_jobs(runner: Runner, lang: str) -> None:
    handler(lang, "nothing")
    made = Handler(lang, ECHOES[lang], after_each=said(lang, "cleaned\nJ: mail|after\nopen"), memory_mb=192)
    for payload in ("x", "y"):
        (stopped,) = (await run(runner, made, jobs(payload))).stopped
        assert (stopped.log, stopped.new_jobs) == (b"", (NewJob("mail", payload.encode()),))


@pytest.mark.parametrize("lang", languages(*FAILS))
@pytest.mark.parametrize("hook", ["before_each", "after_each"])
async def test_what_a_hook_that_fails_prints_is_its_own_batchs(runner: Runner, lang: str, hook: str) -> None:
    handler(lang, "nothing")
    lost = said(lang, "J: mail|x\nlost")
    once = {
        "node": f"if (!globalThis.hadOne) {{ globalThis.hadOne = true; {lost}; {FAILS[lang]} }}",
        "php": f"if (!isset($hadOne)) {{ $hadOne = true; {lost} {FAILS[lang]} }}",
    }
    made = handler(lang, "nothing", **{hook: once[lang]})
    seen = [(await run(runner, made, jobs(payload))).stopped[0] for payload in "xy"]
    assert [(one.exitcode, one.log, one.new_jobs) for one in seen] == [(500, b"lost\n", ()), (200, b"", ())]


async def test_a_hook_that_fails_may_have_closed_the_output(runner: Runner) -> None:
    made = Handler("python", "return 1", before_each="import os; os.close(1); print('x'); raise ValueError('told')")
    seen = await run(runner, made, jobs("x"))
    assert seen.exitcodes == [500]
    assert b"told" in seen.results[0]

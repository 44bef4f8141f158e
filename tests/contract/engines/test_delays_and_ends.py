"""How long a handler asks to wait, and the end of a log that is long and has more than ASCII in it."""

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import jobs, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONGEST_MS = 0xFFFFFFFE


@pytest.mark.parametrize(
    ("lang", "call", "after_ms"),
    [
        ("python", "ctx.retry(after_s='5')", 5000),
        ("python", "ctx.retry(after_s=float('inf'))", LONGEST_MS),
        ("python", "ctx.retry(after_s=-1)", 0),
        ("php", "$ctx->retry('5');", 5000),
        ("php", "$ctx->retry(INF);", LONGEST_MS),
        ("php", "$ctx->retry(-1);", 0),
    ],
)
async def test_a_delay_is_what_was_asked_for_or_the_longest(
    runner: Runner, lang: str, call: str, after_ms: int
) -> None:
    """A text of python was repeated a thousand times, for fifty days; what php could not hold was no delay."""
    (stopped,) = (await run(runner, Handler(lang, call), jobs("x"))).stopped
    assert (stopped.exitcode, stopped.retry_after_ms) == (100, after_ms)


@pytest.mark.parametrize(
    ("lang", "call"),
    [
        ("python", "ctx.retry(after_s=float('nan'))"),
        ("python", "ctx.retry(after_s='soon')"),
        ("php", "$ctx->retry(NAN);"),
    ],
)
async def test_what_is_no_delay_is_an_error(runner: Runner, lang: str, call: str) -> None:
    seen = await run(runner, Handler(lang, call), jobs("x"))
    assert seen.exitcodes == [500]


@pytest.mark.parametrize(
    ("lang", "body"),
    [
        ("python", "print('ä' * 20_000 + payload)"),
        ("python", "import time\ntime.sleep(0.03)\nprint('ä' * 20_000 + payload)"),
        ("node", "payload => console.log('ä'.repeat(20_000) + payload)"),
        ("php", "echo str_repeat('ä', 20_000), $payload, PHP_EOL;"),
    ],
)
async def test_the_end_of_a_long_log_is_text_and_says_how_many_bytes_it_lacks(
    runner: Runner, lang: str, body: str
) -> None:
    """It began within a character, so that nobody took it for text, and counted characters as bytes."""
    seen = await run(runner, Handler(lang, body), jobs("x", "xy"))
    for one, payload in zip(seen.stopped, ("x", "xy"), strict=True):
        text = one.log.decode()
        assert text.strip("ä") == f"{payload}\n"
        assert len(text) > 8000
        assert one.log_dropped + len(one.log) == 40_000 + len(payload) + 1


async def test_a_part_of_a_character_is_in_the_log_of_its_own_job(runner: Runner) -> None:
    body = "payload => { if (payload === 'a') process.stdout.write(Buffer.from([0xe2])); else console.log('x'); }"
    seen = await run(runner, Handler("node", body), jobs("a", "b"))
    assert [one.log.decode() for one in seen.stopped] == ["\N{REPLACEMENT CHARACTER}", "x\n"]

"""Every example of docs/handlers.md and docs/cookbook.md does what the page says."""

import re
from pathlib import Path

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import jobs, need_language, run, wasm

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [(DOCS / name).read_text() for name in ("handlers.md", "cookbook.md")]
EXAMPLE = re.compile(r"<!-- example: (\w+) \| (.*?) \| (\d+) \|(.*?)-->\n```\w+\n(.*?)```", re.DOTALL)
EXAMPLES = [example for page in PAGES for example in EXAMPLE.findall(page)]
SLOW = "import asyncio\nasync def something_slow(): await asyncio.sleep(0)"


async def test_there_are_examples_of_every_language_that_has_a_context() -> None:
    assert {example[0] for example in EXAMPLES} == {"python", "node", "sh", "wasm", "php"}
    assert len(EXAMPLES) == sum(page.count("<!-- example:") for page in PAGES)


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, id=f"{example[0]}-{number}", marks=pytest.mark.slow if example[0] == "php" else ())
        for number, example in enumerate(EXAMPLES)
    ],
)
async def test_an_example(runner: Runner, example: tuple[str, str, str, str, str]) -> None:
    lang, payload, exitcode, result, body = example
    need_language(lang)
    made = Handler(
        lang,
        wasm(body) if lang == "wasm" else body,
        before=SLOW if "something_slow" in body else "",
        memory_mb=192,
    )
    await runner.check("acme-test", made)
    seen = await run(runner, made, jobs(payload))
    assert seen.exitcodes == [int(exitcode)], seen.results
    assert seen.results[0].decode() == result.strip()

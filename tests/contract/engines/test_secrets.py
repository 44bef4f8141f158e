"""Secrets in contexts: they arrive, they are hidden in all that leaves, and a new version reaches the next batch."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count

import pytest
import pytest_asyncio

from handlers.model import Handler
from runner.glimpse import Glimpse
from runner.launch import Launcher
from runner.outcome import OOM_KILLED
from runner.plain import PlainChild
from runner.runner import Runner
from runner.sandbox.child import SandboxedChild
from tests.support.engines import Run, jobs, run
from tests.support.secret_shelf import VALUE, Shelf
from tests.support.service import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest_asyncio.fixture(loop_scope="module")
async def keeper(launcher: Launcher, shelf: Shelf) -> AsyncIterator[Runner]:
    made = Runner(launcher, secrets=shelf)
    yield made
    await made._pool.close()  # the launcher is everybody's


BODIES = {
    "python": """
import os
key = ctx.secrets["API_KEY"]
return [len(key), os.environ["API_KEY"] == key, "OTHER" in os.environ]""",
    "node": """(payload, ctx) => {
      const key = ctx.secrets.API_KEY;
      return [[...key].length, process.env.API_KEY === key, 'OTHER' in process.env];
    }""",
    "sh": 'test "$API_KEY" = "$(cat)" && echo "S: 200 [14,true,${OTHER:-false}]"',
    "php": """
$key = $ctx->secrets['API_KEY'];
return [$payload === $key ? 14 : 0, getenv('API_KEY') === $key, getenv('OTHER') !== false];""",
}


@pytest.mark.parametrize("lang", list(BODIES))
async def test_a_handler_gets_the_secrets_that_it_names(keeper: Runner, lang: str) -> None:
    handler = Handler(lang, BODIES[lang], secrets=("API_KEY",), memory_mb=192)
    seen = await run(keeper, handler, jobs(VALUE))
    assert seen.results == [b"[14,true,false]"], seen.stopped


async def test_a_secret_that_is_not_named_is_told_so(keeper: Runner) -> None:
    body = "print('OTHER' in ctx.secrets, ctx.secrets.get('OTHER'))\nreturn ctx.secrets['OTHER']"
    seen = await run(keeper, Handler("python", body, secrets=("API_KEY",)), jobs("x"))
    assert seen.exitcodes == [500]
    assert seen.results[0].endswith(b"""KeyError: "OTHER is not among this handler's `secrets`\""""), seen.results
    assert seen.stopped[0].log == b"False None\n"


SLOWLY = """
import time
for letter in ctx.secrets['API_KEY']:
    print(letter, end='', flush=True)
    time.sleep(0.003)
return ctx.secrets['API_KEY']"""
CRASH = """
import os
print(os.environ['API_KEY'], flush=True)
os.write(2, os.environb[b'API_KEY'])
os._exit(3)"""
PASSED_ON = """
import os
os.system('echo $API_KEY')
ctx.carry(ctx.secrets['API_KEY'])
ctx.enqueue('mail', ctx.secrets['API_KEY'])"""


@pytest.mark.parametrize(
    ("lang", "body"),
    [
        ("python", "k = ctx.secrets['API_KEY']\nprint(k)\nreturn {'k': k}"),
        ("python", "raise ValueError(ctx.secrets['API_KEY'])"),
        ("python", "print(ctx.secrets['API_KEY'], 'bytes before this were dropped]')"),
        ("python", SLOWLY),
        ("python", CRASH),
        ("python", PASSED_ON),
        ("python", "print('J: mail|' + ctx.secrets['API_KEY'])\nctx.fail(ctx.secrets['API_KEY'])"),
        ("node", "(p, ctx) => { console.log(ctx.secrets.API_KEY); throw new Error(ctx.secrets.API_KEY) }"),
        ("node", "(p, ctx) => { process.stderr.write(ctx.secrets.API_KEY); return ctx.secrets }"),
        ("sh", 'echo "$API_KEY"; echo "S: 400 $API_KEY"'),
        ("php", "echo $ctx->secrets['API_KEY']; return $ctx->secrets;"),
    ],
)
async def test_what_leaves_has_no_secret(keeper: Runner, lang: str, body: str) -> None:
    seen = await run(keeper, Handler(lang, body, secrets=("API_KEY",), memory_mb=192), jobs("x"))
    told = repr(seen.stopped).encode() + seen.results[0] + seen.stopped[0].log
    assert b"***" in told
    assert b"s3same" not in told


async def test_a_handler_that_does_not_load_tells_no_secret(keeper: Runner) -> None:
    handler = Handler(
        "python", "pass", before="import os\nraise ValueError(os.environ['API_KEY'])", secrets=("API_KEY",)
    )
    seen = await run(keeper, handler, jobs("x"))
    assert seen.exitcodes == [500]
    assert b"ValueError: ***" in seen.results[0]


LONG = "".join(f"{number:04x}." for number in range(300))


def caught(statement: str) -> str:
    """In python, with another error in front of it and behind it."""
    return f"try:\n    {statement}\nexcept Exception as err:\n    raise KeyError('x') from err"


BEGINS_WITHIN = "import os\nraise ValueError(os.environ['API_KEY'] + 'x' * 7800)"
ENDS_WITHIN = "throw Object.assign(new Error('x'.repeat(7000) + process.env.API_KEY), { code: 'EFBIG' })"


@pytest.mark.parametrize(
    "handler",
    [
        Handler("python", caught("ctx.enqueue('other', unique=ctx.secrets['API_KEY'])")),
        Handler("python", caught("ctx.enqueue('other', delay_s=ctx.secrets['API_KEY'])")),
        Handler("python", caught("ctx.enqueue('other', priority=ctx.secrets['API_KEY'])")),
        Handler("python", caught("ctx.enqueue('other', max_attempts=ctx.secrets['API_KEY'])")),
        Handler("node", "(p, ctx) => ctx.enqueue('other', '', { maxAttempts: ctx.secrets.API_KEY })"),
        Handler("python", caught("ctx.fail(code=ctx.secrets['API_KEY'])")),
        Handler("python", "pass", before=BEGINS_WITHIN),
        Handler("python", "pass", before_each=BEGINS_WITHIN),
        Handler("python", "pass", after_each=BEGINS_WITHIN),
        Handler("sh", "true", before='echo "$API_KEY"; printf "%015500d\\n" 0; false'),
        Handler("node", "(p, ctx) => { throw { key: ctx.secrets.API_KEY, b: 1 } }"),
        Handler("node", f"(p, ctx) => {{ {ENDS_WITHIN} }}"),
    ],
)
async def test_no_message_has_a_part_of_a_long_secret(keeper: Runner, shelf: Shelf, handler: Handler) -> None:
    shelf.values["API_KEY"] = LONG
    seen = await run(keeper, replace(handler, secrets=("API_KEY",), memory_mb=192), jobs("x"))
    assert seen.exitcodes == [500]
    assert_no_part_of_long(seen.results[0].decode())


async def test_nor_has_it_behind_our_words_about_memory(
    keeper: Runner, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.values["API_KEY"] = LONG
    kills = count()
    for child in (PlainChild, SandboxedChild):
        monkeypatch.setattr(child, "oom_kills", lambda _: next(kills))
    seen = await run(keeper, Handler("python", BEGINS_WITHIN, secrets=("API_KEY",)), jobs("x"))
    assert seen.exitcodes == [507]
    assert seen.results[0].startswith(OOM_KILLED + b"***")
    assert_no_part_of_long(seen.results[0].decode())


def assert_no_part_of_long(told: str) -> None:
    assert not [part for at in range(len(LONG) - 7) if (part := LONG[at : at + 8]) in told], told


async def test_a_new_version_reaches_the_next_batch_and_the_old_context_goes(keeper: Runner, shelf: Shelf) -> None:
    body = "import os\nreturn [os.getpid(), ctx.secrets['API_KEY'] == payload]"
    handler = Handler("python", body, secrets=("API_KEY",))
    first = await run(keeper, handler, jobs(VALUE))
    again = await run(keeper, handler, jobs(VALUE))
    assert first.results == again.results  # the same context
    shelf.values["API_KEY"], shelf.version = "a-new-value", 2
    rotated = await run(keeper, handler, jobs("a-new-value"))
    assert rotated.results[0].endswith(b",true]")
    assert keeper.gauges()["contexts"] == 1


async def test_a_look_at_a_running_job_shows_no_secret(keeper: Runner) -> None:
    body = """
import time
ctx.progress(ctx.secrets["API_KEY"])
time.sleep(0.03)
print(ctx.secrets["API_KEY"], flush=True)
time.sleep(3600)"""
    batch = jobs("x")
    handler = Handler("python", body, timeout_s=3600, secrets=("API_KEY",))
    running = asyncio.create_task(keeper.run_jobs("acme-test", batch, handler, Run().hear))

    async def has_told() -> Glimpse | None:
        glimpse = keeper.glimpse("acme", batch[0].id, 0)
        return glimpse if glimpse is not None and glimpse.text else None

    try:
        glimpse = await until(has_told)
        assert (glimpse.text, glimpse.progress) == (b"***\n", b'"***"')
    finally:
        keeper.cancel("acme", batch[0].id)
        await running


async def test_what_cannot_be_given_is_said(keeper: Runner) -> None:
    missing = await run(keeper, Handler("python", "pass", secrets=("GONE",)), jobs("x"))
    assert (missing.exitcodes, missing.results) == ([500], [b"the secret GONE is not set"])


async def test_jobs_whose_secrets_cannot_be_opened_here_are_given_back(keeper: Runner) -> None:
    handler = Handler("python", "pass", secrets=("API_KEY",))
    locked = await run(keeper, handler, jobs("x", "y"), "other-test")
    assert (locked.stopped, locked.given_back) == ([], [job.id for job in jobs("x", "y")])
    assert not keeper.can_run("other-test", handler, {"python"})
    assert keeper.can_run("acme-test", handler, {"python"})

"""Texts that look like a function or a program and are the inside of a handler: they run once for each job."""

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import jobs, run
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENDS = "(async () => { ctx.enqueue('mail', payload) })()"
SENDER = "(one) => ctx.enqueue('mail', one)"

NODE = [
    f"// go\n{SENDS}",
    f"'use strict';\n{SENDS}",
    f"{SENDS}; // done",
    "// total\n(ctx.attempt > 0) && ctx.enqueue('mail', payload)",
    "// all\n([payload] || []).forEach((one) => ctx.enqueue('mail', one))",
    "// in brackets\n(ctx.enqueue('mail', payload))",
    "const { handler } = { handler: (one) => one };\nreturn ctx.enqueue('mail', handler(payload))",
    f"const {{ handler }} = await {{ handler: {SENDER} }};\nreturn handler(payload)",
    f"const n = 1, handler = {SENDER};\nreturn handler(payload)",
    f"const n = 1, handler = {SENDER};\nhandler(payload)",
    f"const [handler] = [{SENDER}];\n[payload].forEach(handler)",
]

PYTHON = [
    (
        "import json\npayload = json.loads(payload)\nif payload > 1:\n    handler = str\nelse:\n    handler = repr\n"
        "print('J: mail|' + handler(payload))"
    ),
    "payload = payload.strip()\nif True:\n    handler = None\nprint('J: mail|' + payload)",
    (
        "import logging, sys\nlog = logging.getLogger('x')\nif not log.handlers:\n"
        "    handler = logging.StreamHandler(sys.stdout)\n    log.addHandler(handler)\n"
        "log.warning('J: mail|%d', len(log.handlers))"
    ),
]


@pytest.mark.parametrize(("lang", "body"), [*(("node", body) for body in NODE), *(("python", body) for body in PYTHON)])
async def test_the_inside_of_a_handler_runs_for_each_job(runner: Runner, lang: str, body: str) -> None:
    made = Handler(lang, body, memory_mb=192)
    await runner.check("acme-test", made)
    seen = await run(runner, made, jobs("1", "1"))
    assert [(one.exitcode, one.new_jobs) for one in seen.stopped] == [(200, (NewJob("mail", b"1"),))] * 2, seen.results


@pytest.mark.parametrize(
    "body",
    [
        "(() => { let n = 0; return () => ++n })()",
        "let n = 0; const handler = () => ++n; return handler",
        "let n = 0, handler = () => ++n",
        "((function () { let n = 0; return (() => ++n) // counts\n})()) // done",
        "// in brackets\n((payload) => Number(payload)) // done",
    ],
)
async def test_what_is_made_once_is_called_for_each_job(runner: Runner, body: str) -> None:
    made = Handler("node", body, memory_mb=192)
    await runner.check("acme-test", made)
    assert (await run(runner, made, jobs("1", "2"))).results == [b"1", b"2"]


async def test_a_line_of_slashes_takes_no_time(runner: Runner) -> None:
    ruler = "/" * 100
    made = Handler("node", f"(payload) => {{\n  let n = 1;\n{ruler}\n  return n;\n}}", memory_mb=192, timeout_s=5)
    await runner.check("acme-test", made)
    assert (await run(runner, made, jobs("x"))).results == [b"1"]

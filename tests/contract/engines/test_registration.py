"""The check at registration: texts are parsed in a sandbox and none runs; positions are the tenant's."""

import asyncio
import base64
from pathlib import Path

import pytest

from handlers.errors import HandlerSyntaxError
from handlers.model import Handler
from runner.errors import RunnerError
from runner.runner import Runner
from tests.support.engines import BODIES, handler, jobs, languages, need_language, run, wasm

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("lang", languages())
async def test_what_runs_passes(runner: Runner, lang: str) -> None:
    await asyncio.gather(*[runner.check("acme-test", handler(lang, name)) for name in BODIES[lang]])


@pytest.mark.parametrize(
    ("lang", "body", "line", "column"),
    [
        ("python", "x = 1\ny = 2\nreturn x +* y", 3, 11),
        ("python", "def handler(payload, ctx):\n  return (", 2, 10),
        ("python", "x = 1\ny = 'open", 2, 5),
        ("python", "return await ctx\nbreak", 2, 1),
        ("node", "(payload) => {\n  return payload +* 2\n}", 2, 19),
        ("node", "return payload +* 2", 1, 17),
        ("node", "const handler = (payload) => {\n  let a = 1;\n  let a = 2;\n}", 3, 7),
        ("sh", "echo one\nif true; then\n  echo two\nfoo )", 4, 0),
        pytest.param("php", "$a = 1;\n$b = 2;\nreturn $a +* $b;", 3, 0, marks=pytest.mark.slow),
        pytest.param("php", "$a = 1;\nbreak;", 2, 0, marks=pytest.mark.slow),
        pytest.param("php", "\n$this = 1;", 2, 0, marks=pytest.mark.slow),
        pytest.param("php", "function f($a, $a) {}", 1, 0, marks=pytest.mark.slow),
    ],
)
async def test_errors_have_the_tenants_own_line_and_column(
    runner: Runner, lang: str, body: str, line: int, column: int
) -> None:
    need_language(lang)
    with pytest.raises(HandlerSyntaxError) as caught:
        await runner.check("acme-test", Handler(lang, body, memory_mb=192))
    assert (caught.value.field, caught.value.line, caught.value.column) == ("body", line, column)
    assert str(caught.value).startswith(f"body: line {line}")


@pytest.mark.parametrize(
    ("lang", "body", "says", "line"),
    [
        ("python", "def main(payload):\n    return payload", "defines main, but nothing calls it", 1),
        ("python", "import json\nX = 1\n\ndef lambda_handler(event, context):\n    return 1", "lambda_handler", 4),
        ("python", "lambda payload, ctx: payload", "a lambda", 1),
        ("python", "run = lambda payload, ctx: payload", "a lambda", 1),
        ("python", "def run(p): pass\nif __name__ == '__main__': run(1)", "defines run", 1),
        ("python", "def handler(payload): return 1", "must take two arguments", 1),
        ("python", "def handler(payload, ctx, more): return 1", "must take two arguments", 1),
        ("node", "module.exports = (payload) => payload", "exports a function", 1),
        ("node", "'use strict';\nexports.handler = async (event) => {\n  return 1;\n};", "exports a function", 2),
        ("node", "const main = (payload) => {\n  return payload;\n};", "defines main", 1),
        ("node", "const fs = require('fs');\nfunction a() { return 1 }\nfunction main(p) { return a() }", "main", 3),
        ("node", "'use strict';\nconst main = (payload) => payload", "defines main", 2),
        ("node", "const h = (n) => 2 * n;\n(payload, ctx) => h(payload)", "ends with a function that nothing calls", 2),
        ("node", "let n = 0; async (payload) => {\n  n += 1;\n  return n;\n}; // done", "ends with a function", 1),
        ("node", "console.log(`a\n(b`);\n/* one\n*/ payload => /[;]/.test(payload)", "ends with a function", 4),
        ("node", "handler = async (payload, ctx) => payload", "write const handler", 1),
        ("node", "const a = 1;\nhandler = (payload) => payload;", "write const handler", 2),
    ],
)
async def test_a_misnamed_handler_is_refused(runner: Runner, lang: str, body: str, says: str, line: int) -> None:
    """Its jobs would all end well, and have done nothing."""
    need_language(lang)
    with pytest.raises(HandlerSyntaxError, match=says) as caught:
        await runner.check("acme-test", Handler(lang, body, memory_mb=192))
    assert (caught.value.field, caught.value.line) == ("body", line)


@pytest.mark.parametrize(
    ("lang", "body"),
    [
        ("python", "def double(n): return 2 * n\nreturn double(int(payload))"),
        ("python", "def double(n): return 2 * n\nresult = double(int(payload))"),
        ("python", "def handler(*args): return 1"),
        ("python", "def handler(payload, ctx, retries=3): return 1"),
        ("python", "handler = lambda payload, ctx: 1"),
        ("python", "from json import loads as handler"),
        ("node", "function main(payload) { return payload }"),
        ("node", "const f = (n) => 2 * n;\nreturn f(Number(payload))"),
        ("node", "const f = (n) => 2 * n;\nconsole.log(f(1))"),
        ("node", "const a = 1, handler = (payload) => payload"),
        ("node", "const f = async () => { await 1 };\nawait f()"),
        ("node", "// module.exports = 1\nreturn 'module.exports = 2'"),
        ("node", "const log = console.log;\n(() => log(payload))()"),
        ("node", "ctx.enqueue('a', payload);\n// was: list.map(f); x => x.id"),
        ("node", "globalThis.double =\n  (n) => 2 * n"),
        ("node", "const f = (n) => `;\n(payload) => 1`;\nreturn f(payload)"),
    ],
)
async def test_a_body_that_does_something_passes(runner: Runner, lang: str, body: str) -> None:
    need_language(lang)
    await runner.check("acme-test", Handler(lang, body, memory_mb=192))


@pytest.mark.parametrize("lang", languages("python", "node", "sh", "php"))
@pytest.mark.parametrize(
    ("field", "name"), [("before", "before"), ("before_each", "beforeEach"), ("after_each", "afterEach")]
)
async def test_hooks_are_checked_too(runner: Runner, lang: str, field: str, name: str) -> None:
    with pytest.raises(HandlerSyntaxError) as caught:
        await runner.check("acme-test", handler(lang, "nothing", **{field: "if ( then"}))
    assert (caught.value.field, caught.value.line) == (name, 1)


@pytest.mark.parametrize(
    ("body", "before", "field"), [("echo hi\r\nset -e\r\n", "", "body"), (":", "\r\nx=1\r\n", "before")]
)
async def test_a_shell_text_with_lines_of_windows_is_refused(
    runner: Runner, body: str, before: str, field: str
) -> None:
    """It would parse: `set -e` fails, and what is echoed ends with a carriage return."""
    with pytest.raises(HandlerSyntaxError, match="end as on Windows") as caught:
        await runner.check("acme-test", Handler("sh", body, before=before))
    assert (caught.value.field, caught.value.line) == (field, 1)
    await runner.check("acme-test", Handler("sh", "cat <<END\nGET / HTTP/1.0\r\n\r\nEND"))


async def test_nothing_of_the_tenant_runs_while_it_is_checked(runner: Runner, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for made in (
        Handler("python", f"open({str(mark)!r}, 'w')", before=f"open({str(mark)!r}, 'w')"),
        Handler("node", f"require('fs').writeFileSync('{mark}', '')", memory_mb=192),
        Handler("sh", f"echo >{mark}", before=f"echo >{mark}"),
    ):
        need_language(made.lang)
        await runner.check("acme-test", made)
    assert not await asyncio.to_thread(mark.exists)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (base64.b64encode(b"\0asm\1\0\0\0\xff\xff").decode(), "is not a valid module"),
        (wasm("(module)"), "exports no _start function"),
        (wasm('(module (import "env" "system" (func)) (func (export "_start")))'), "imports env.system"),
    ],
)
async def test_a_module_that_is_no_wasi_command_is_refused(runner: Runner, body: str, says: str) -> None:
    with pytest.raises(HandlerSyntaxError, match=says):
        await runner.check("acme-test", Handler("wasm", body))


async def test_a_text_that_kills_its_own_parser_costs_nobody_else(runner: Runner) -> None:
    """Deep nesting is a classic: whatever becomes of the parser, the daemon answers."""
    with pytest.raises((HandlerSyntaxError, RunnerError)):
        await runner.check("acme-test", Handler("python", "return " + "(" * 200_000 + ")" * 200_000))
    assert (await run(runner, Handler("python", "return [1]"), jobs("x"))).exitcodes == [200]


async def test_a_handler_that_was_never_checked_is_an_error_of_its_jobs(runner: Runner) -> None:
    seen = await run(runner, Handler("python", "return ("), jobs("a", "b"))
    assert seen.exitcodes == [500, 500]
    assert seen.results[0].startswith(b"body: line 1")

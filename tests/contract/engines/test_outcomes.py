"""What a job's end means, the same in every language: statuses, results, logs and new jobs."""

import json

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import behaviours, handler, jobs, languages, run, wasi, wasm
from vocabulary.new_job import NewJob

_PRINTS_THROUGH_MS = 20.0
"""python and node: a job that runs longer writes its log past the replies."""

pytestmark = pytest.mark.asyncio(loop_scope="module")
everywhere = pytest.mark.parametrize("lang", languages())


@everywhere
async def test_a_job_that_says_nothing_is_ok(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "nothing"), jobs("a", "b", "c"))
    assert [(one.code, one.exitcode, one.result, one.log, one.new_jobs) for one in seen.stopped] == [
        ("ok", 200, b"", b"", ())
    ] * 3
    assert all(one.level == runner.level and one.duration_ms >= 0 for one in seen.stopped)


async def test_a_wasm_module_whose_start_is_not_to_be_called_is_an_error_and_no_crash(runner: Runner) -> None:
    for signature in ("(param i32)", "(result i32) (i32.const 7)"):
        seen = await run(
            runner, Handler("wasm", wasm(f'(module (func (export "_start") {signature}))')), jobs("a", "b")
        )
        assert seen.exitcodes == [500, 500]
        assert b"expected" in seen.results[0]


@pytest.mark.parametrize(
    ("trap", "told"),
    [
        ("(unreachable)", b"wasm `unreachable` instruction executed"),
        ("(drop (i32.div_s (i32.const 1) (local.get $n)))", b"integer divide by zero"),
        ("(drop (i32.load (i32.const -8)))", b"out of bounds memory access"),
        ("(call $start)", b"call stack exhausted"),
    ],
)
async def test_a_trap_of_wasm_is_the_error_of_its_job_and_no_crash(runner: Runner, trap: str, told: bytes) -> None:
    """It comes as a signal, which must reach the runtime of wasm and nobody else."""
    begins_with_b = "(drop (call $read (i32.const 200))) (i32.eq (i32.load8_u (i32.const 200)) (i32.const 98))"
    seen = await run(runner, Handler("wasm", wasi(f"{begins_with_b} (if (then {trap}))")), jobs("a", "b", "c"))
    assert (seen.exitcodes, seen.given_back) == ([200, 500, 200], [])
    assert told in seen.results[1]
    assert seen.stopped[1].log == b""


@everywhere
async def test_each_job_has_its_own_result(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "echo"), jobs("one", "two", "drei ä"))
    assert [json.loads(result) for result in seen.results] == ["one", "two", "drei ä"]


@everywhere
async def test_retry_and_failed(runner: Runner, lang: str) -> None:
    retry = await run(runner, handler(lang, "retry"), jobs("x"))
    assert (retry.stopped[0].code, retry.stopped[0].exitcode) == ("retry", 100)
    if lang in {"python", "node", "php"}:
        assert retry.stopped[0].retry_after_ms == 1500
    failed = await run(runner, handler(lang, "fail"), jobs("x"))
    assert (failed.stopped[0].code, failed.stopped[0].exitcode) == ("failed", 400)
    assert failed.results == [b'"bad data"']


@pytest.mark.parametrize(
    ("lang", "code", "exitcode", "told"),
    [
        ("python", "404", 404, b'"gone"'),
        ("python", "__import__('http').HTTPStatus.NOT_FOUND", 404, b'"gone"'),
        ("python", "404.0", 500, b"a whole number from 400 to 499 as its code, not 404.0"),
        ("python", "'404'", 500, b"a whole number from 400 to 499 as its code, not '404'"),
        ("python", "500", 500, b"a whole number from 400 to 499 as its code, not 500"),
        ("node", "404", 404, b'"gone"'),
        ("node", "404.5", 500, b"a whole number from 400 to 499 as its code, not 404.5"),
        ("node", "'404'", 500, b"a whole number from 400 to 499 as its code, not '404'"),
        ("node", "500", 500, b"a whole number from 400 to 499 as its code, not 500"),
    ],
)
async def test_a_job_that_fails_never_ends_well(
    runner: Runner, lang: str, code: str, exitcode: int, told: bytes
) -> None:
    body = f"ctx.fail('gone', {code})"
    seen = await run(runner, Handler(lang, body, memory_mb=192), jobs("x"))
    assert seen.exitcodes == [exitcode]
    assert told in seen.results[0]


@pytest.mark.parametrize("lang", behaviours("number"))
async def test_a_returned_number_is_a_result(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "number"), jobs("42", "144", "250", "500", "-1"))
    assert seen.exitcodes == [200] * 5
    assert seen.results == [b"42", b"144", b"250", b"500", b"-1"]


@pytest.mark.parametrize("lang", behaviours("number"))
async def test_a_handler_may_say_that_its_numbers_are_statuses(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "number", returns="status"), jobs("201", "404", "42"))
    assert seen.exitcodes == [201, 404, 500]
    assert seen.results[:2] == [b"", b""]
    assert b"an invalid status code" in seen.results[2]


async def test_a_process_that_ends_itself_is_not_called_killed(runner: Runner) -> None:
    for _ in range(5):  # the end of the pipe and the end of the process come in any order
        seen = await run(runner, Handler("python", "import os; os._exit(3)"), jobs("x"))
        assert seen.exitcodes == [502]
        assert b"exit status 3" in seen.results[0]


async def test_what_json_cannot_hold_is_an_error(runner: Runner) -> None:
    seen = await run(runner, Handler("python", "return {'x': float(payload)}"), jobs("nan", "inf", "1.5"))
    assert seen.exitcodes == [500, 500, 200]
    assert b"returned what JSON cannot hold" in seen.results[0]
    node = Handler("node", "(p) => [{ x: p === 'null' ? null : Number(p) }]", memory_mb=192)
    seen = await run(runner, node, jobs("NaN", "-Infinity", "null", "1.5"))
    assert seen.exitcodes == [500, 500, 200, 200]
    assert seen.results[1:] == [
        b"returned what JSON cannot hold: -Infinity has no JSON form",
        b'[{"x":null}]',
        b'[{"x":1.5}]',
    ]


async def test_a_traceback_has_no_path_of_this_machine(runner: Runner) -> None:
    seen = await run(runner, Handler("python", "import json; return json.loads(payload)"), jobs("{"))
    assert b'File "json/__init__.py"' in seen.results[0]
    assert b'"/' not in seen.results[0]


async def test_a_traceback_has_all_the_words_of_the_error(runner: Runner) -> None:
    seen = await run(runner, Handler("python", "raise ValueError('None/of/these')"), jobs("x"))
    assert b"ValueError: None/of/these" in seen.results[0]


IN_A_GROUP = """
import asyncio
async def tell(wanted):
    if wanted == "fail": ctx.fail("gone", code=404)
    if wanted == "retry": ctx.retry(after_s=1.5)
    raise ValueError(wanted)
async with asyncio.TaskGroup() as group:
    for wanted in payload.split(): group.create_task(tell(wanted))
"""


async def test_a_task_of_a_group_may_say_how_its_job_ends(runner: Runner) -> None:
    seen = await run(runner, Handler("python", IN_A_GROUP), jobs("fail", "retry", "fail retry", "fail other"))
    assert seen.exitcodes == [404, 100, 404, 500]
    assert seen.results[0] == b'"gone"'
    assert seen.stopped[1].retry_after_ms == 1500
    assert b"ValueError: other" in seen.results[3]


@everywhere
async def test_an_error_says_what_happened_and_spares_the_others(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "error"), jobs("1", "2"))
    assert seen.exitcodes == [500, 500]
    assert seen.stopped[0].code == "error"
    told = b"".join(one.result + one.log for one in seen.stopped)  # a slow one's log may be with the last
    assert told.count(b"oh dear") >= 2
    assert b"bootstraps" not in seen.results[0], "frames of our own file are noise to a tenant"


@everywhere
async def test_what_is_printed_is_the_log_of_that_job(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "log"), jobs("1", "2"))
    logs = [one.log for one in seen.stopped]
    if all(one.duration_ms < _PRINTS_THROUGH_MS for one in seen.stopped):
        assert logs == [b"hello\nworld\n"] * 2
    else:  # on a machine that was busy just then: what went past the replies may all be with the last one
        assert b"".join(logs) == b"hello\nworld\n" * 2


@everywhere
async def test_marked_lines_make_new_jobs_of_no_tenant(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "new_jobs"), jobs("x"))
    assert seen.stopped[0].new_jobs == (NewJob("mail", b"to bob"), NewJob("mail", b"to eve"))
    assert seen.stopped[0].log.startswith(b"J: nonsense [not a new job")


@everywhere
async def test_an_error_makes_no_new_jobs(runner: Runner, lang: str) -> None:
    """It runs again and would make them again."""
    seen = await run(runner, handler(lang, "new_jobs_then_error"), jobs("x"))
    assert (seen.exitcodes, seen.stopped[0].new_jobs) == ([500], ())


@everywhere
async def test_a_status_that_is_none_is_an_error(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "bad_status"), jobs("x"))
    assert seen.exitcodes == [500]
    assert b"300" in seen.results[0]


async def test_what_the_shell_says_has_no_path_of_this_machine(runner: Runner) -> None:
    made = Handler("sh", "true\nno-such-program", before="no-such-hook || true")
    said = (await run(runner, made, jobs("x"))).stopped[0].log.decode()
    assert "2: handler.sh: no-such-program" in said or "handler.sh: line 2: no-such-program" in said  # dash, or bash
    assert "before.sh" in said
    assert "/" not in said


@pytest.mark.parametrize(
    ("body", "exitcode"),
    [("exit 65", 400), ("exit 75", 100), ("exit 3", 500), ("false; exit 65", 500), ("true", 200), ("echo S: 403", 403)],
)
@pytest.mark.parametrize("where", ["before", "beforeEach"])
async def test_set_e_in_a_hook_is_for_the_jobs_and_not_for_the_shell(
    runner: Runner, where: str, body: str, exitcode: int
) -> None:
    made = Handler("sh", body, before="set -e" if where == "before" else "true", before_each="set -e", after_each=":")
    for _ in range(2):  # the same shell
        seen = await run(runner, made, jobs("x", "y"))
        assert seen.exitcodes == [exitcode] * 2, seen.results


async def test_a_hook_of_sh_that_fails_under_set_e_tells_its_exit_status(runner: Runner) -> None:
    seen = await run(runner, Handler("sh", "true", before="set -e", before_each="exit 7"), jobs("x"))
    assert seen.exitcodes == [500]
    assert b"the shell that runs the jobs ended with exit status 7" in seen.results[0]


@pytest.mark.parametrize("lang", behaviours("child_prints"))
async def test_what_a_sub_process_prints_belongs_to_the_job(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "child_prints"), jobs("x"))
    assert seen.stopped[0].log == b"from a child\n"


@pytest.mark.parametrize("lang", behaviours("environment"))
async def test_the_environment_is_the_handlers_and_nothing_else(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "environment", env={"COLOUR": "blue"}), jobs("x"))
    assert seen.results == [b'"blue"']


@pytest.mark.parametrize(
    ("value", "exitcode", "result"),
    [
        ("None", 200, b""),
        ("201", 200, b"201"),
        ("(202, {'a': 1})", 202, b'{"a":1}'),
        ("(404, None)", 404, b""),
        ("[1, 2]", 200, b"[1,2]"),
        ("True", 200, b"true"),
        ("b'\\x00raw'", 200, b"\0raw"),
        ("('a', 'b')", 200, b'["a","b"]'),
        ("(99, None)", 500, b"returned 99, an invalid status code; use 1xx, 2xx, 4xx or 5xx"),
        ("{1, 2}", 500, b"returned what JSON cannot hold: Object of type set is not JSON serializable"),
        ("__import__('http').HTTPStatus.NOT_FOUND, 'gone'", 404, b'"gone"'),
        ("True, 'gone'", 200, b'[true,"gone"]'),
        ("__import__('enum').IntEnum('Level', 'LOW HIGH').LOW, 'gone'", 200, b'[1,"gone"]'),
        ("__import__('signal').SIGTERM, 'gone'", 200, b'[15,"gone"]'),
    ],
)
async def test_python_return_values(runner: Runner, value: str, exitcode: int, result: bytes) -> None:
    seen = await run(runner, Handler("python", f"return {value}"), jobs("x"))
    assert (seen.exitcodes, seen.results) == ([exitcode], [result])


@pytest.mark.parametrize(
    "body",
    [
        "def handler(payload, ctx):\n    return payload.upper()",
        "async def handler(payload, ctx):\n    return payload.upper()",
        "import asyncio\nawait asyncio.sleep(0)\nreturn payload.upper()",
        "handler = lambda payload, ctx: payload.upper()",
        "async def few():\n    yield payload.upper()\nreturn [each async for each in few()][0]",
        "async def few():\n    yield payload.upper()\nimport asyncio\nreturn asyncio.run(anext(x async for x in few()))",  # noqa: E501
        "return payload.upper()",
        "if True:\n    def handler(payload, ctx): return payload.upper()\nelse:\n    handler = None",
        "try:\n    import fast as handler\nexcept ImportError:\n    handler = lambda payload, ctx: payload.upper()",
        "with open('/dev/null') as ctx:\n    size = ctx.read()\n    def handler(payload, ctx): return payload.upper()",
        "handler: object = lambda payload, ctx: payload.upper()",
        "for name in ('upper',):\n    async def handler(payload, ctx): return getattr(payload, name)()",
        (
            "import functools\nasync def answer(how, payload, ctx): return how(payload)\n"
            "handler = functools.partial(answer, str.upper)"
        ),
        (
            "def plain(call):\n    return lambda *args: call(*args)\n"
            "@plain\nasync def handler(payload, ctx): return payload.upper()"
        ),
        "import types\n@types.coroutine\ndef handler(payload, ctx):\n    yield\n    return payload.upper()",
        "class Answer:\n    async def __call__(self, payload, ctx): return payload.upper()\nhandler = Answer()",
        "for handler in (str.lower, str.upper): answer = handler(payload)\nreturn answer",
        "if payload:\n    handler = str.upper\nelse:\n    handler = str.lower\nreturn handler(payload)",
        "handler: object = payload.upper()\nreturn handler",
    ],
)
async def test_python_forms_of_a_body(runner: Runner, body: str) -> None:
    await runner.check("acme-test", Handler("python", body))
    seen = await run(runner, Handler("python", body), jobs("abc"))
    assert seen.results == [b'"ABC"']


@pytest.mark.parametrize(
    "body",
    [
        "(payload, ctx) => payload.toUpperCase()",
        "async (payload) => payload.toUpperCase();",
        "function (payload) { return payload.toUpperCase() }",
        "function handler(payload) { return payload.toUpperCase() }",
        "const handler = (payload) => payload.toUpperCase();",
        "return payload.toUpperCase()",
        "await null; return payload.toUpperCase() // done",
        "// capitals\n(payload, ctx) => {\n  return payload.toUpperCase();\n}",
        "/** capitals */\nasync (payload, ctx) => payload.toUpperCase()",
        "/* eslint-disable */ payload => payload.toUpperCase()",
        "'use strict';\n(payload, ctx) => (function () { return this ? '' : payload.toUpperCase() })()",
        '// one\n"use strict"\n/* two */\n(payload) => payload.toUpperCase(); // three; four\n/* five */;\n',
        "(payload, ctx) => payload.toUpperCase() + '; // no comment'.slice(15); // done",
        "// const handler is not here\nreturn payload.toUpperCase()",
        "const text = 'const handler = 1'; return payload.toUpperCase()",
        "const { handler } = { handler: (payload) => payload.toUpperCase() }",
    ],
)
async def test_node_forms_of_a_body(runner: Runner, body: str) -> None:
    seen = await run(runner, Handler("node", body, memory_mb=192), jobs("abc"))
    assert seen.results == [b'"ABC"']


async def test_payloads_are_bytes_and_arrive_unharmed(runner: Runner) -> None:
    payload = b"\xff\x00 caf\xc3\xa9 \xe2\x82"
    body = "assert payload.encode('utf-8', 'surrogateescape') == ctx.payload_bytes; return ctx.payload_bytes"
    seen = await run(runner, Handler("python", body), jobs(payload))
    assert seen.results == [payload]
    node = Handler("node", "(payload, ctx) => ctx.payloadBytes", memory_mb=192)
    assert (await run(runner, node, jobs(payload))).results == [payload]
    sh = await run(runner, Handler("sh", "cat"), jobs(payload))
    assert sh.stopped[0].log == payload


@pytest.mark.parametrize("delay", ["", "; __import__('time').sleep(0.03)"])
async def test_half_a_surrogate_pair_can_be_printed(runner: Runner, delay: str) -> None:
    """JSON may have one. It has no bytes; what stands beside it keeps its own, also those that are not UTF-8."""
    body = (
        f"name = __import__('json').loads(payload)['name']{delay}\nprint(name, chr(0xDCE9)); print('J: mail|' + name)"
    )
    seen = await run(runner, Handler("python", body), jobs('{"name": "caf\\ud83d"}'))
    told = "caf\ufffd".encode()
    assert [(one.exitcode, one.log, one.new_jobs) for one in seen.stopped] == [
        (200, told + b" \xe9\n", (NewJob("mail", told),))
    ]


async def test_ctx_tells_the_job_and_makes_new_ones(runner: Runner) -> None:
    body = "ctx.enqueue('mail', {'to': 1}); ctx.enqueue('raw', b'a\\nb'); return [ctx.id, ctx.type, ctx.attempt]"
    seen = await run(runner, Handler("python", body), [jobs("x")[0]._replace(attempts=3)])
    assert json.loads(seen.results[0]) == [jobs("x")[0].id, "test", 3]
    assert seen.stopped[0].new_jobs == (NewJob("mail", b'{"to":1}'), NewJob("raw", b"a\nb"))


@pytest.mark.parametrize("name", ["other-mail", "a|b", "", "a b", "x" * 128])
async def test_a_new_job_cannot_name_another_tenant(runner: Runner, name: str) -> None:
    """A dash is part of a type: the jobtype is made by putting our tenant before it."""
    body = f"ctx.enqueue({name!r}, 'x')"
    seen = await run(runner, Handler("python", body), jobs("x"))
    if name == "other-mail":
        assert seen.stopped[0].new_jobs == (NewJob("other-mail", b"x"),)
    else:
        assert seen.exitcodes == [500]
        assert b"not a job type" in seen.results[0]


@pytest.mark.parametrize("lang", behaviours("carry"))
async def test_a_job_carries_data_on(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "carry"), jobs("7"))
    assert [(one.exitcode, one.carried, one.result, one.log) for one in seen.stopped] == [(200, b'{"n":8}', b"", b"")]
    seen = await run(runner, handler(lang, "carry_and_retry"), jobs("7"))
    assert [(one.exitcode, one.carried) for one in seen.stopped] == [(100, b"7!")]
    seen = await run(runner, handler(lang, "carry_then_error"), jobs("7"))
    assert [(one.exitcode, one.carried) for one in seen.stopped] == [(500, None)], "it runs again as it did before"
    seen = await run(runner, handler(lang, "nothing"), jobs("7"))
    assert [one.carried for one in seen.stopped] == [None]


@pytest.mark.parametrize("lang", behaviours("carry_too_much"))
async def test_what_a_job_carries_on_is_bounded(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "carry_too_much"), jobs("7"))
    assert [(one.exitcode, one.carried) for one in seen.stopped] == [(413, None)]
    assert seen.results == [b"carried more than 1048576 bytes on"]

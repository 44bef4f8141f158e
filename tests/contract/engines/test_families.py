"""New jobs with options, and what a parent is told of its children: the same in every language."""

import json
from urllib.parse import parse_qsl

import pytest

from handlers.model import Handler
from runner.protocol import ParentJob
from runner.runner import Runner
from tests.support.engines import Run, behaviours, handler, jobs, need_language, print_environment, run
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHILDREN = [
    {"id": "c1", "type": "piece", "state": "archived", "code": "ok", "exitcode": 200, "result": '{"n":1}\tä\n'},
    {"id": "c2", "type": "piece", "state": "archived", "code": "cancelled", "exitcode": 499, "result": None},
]
LINES = 'c1\tpiece\tok\t200\t{"n":1}\\tä\\n\nc2\tpiece\tcancelled\t499\t\n'


async def run_parent(runner: Runner, made: Handler) -> Run:
    need_language(made.lang)
    (job,) = jobs("x")
    parent = ParentJob(job.id, job.data, job.attempts, json.dumps(CHILDREN).encode())
    seen = Run()
    seen.given_back = await runner.run_jobs("acme-test", [parent], made, seen.hear)
    return seen


@pytest.mark.parametrize("lang", behaviours("enqueue"))
async def test_new_jobs_have_options(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "enqueue"), jobs("x"))
    first, second, third = seen.stopped[0].new_jobs
    assert (first.type, first.payload) == ("mail", b"a|b")
    assert dict(parse_qsl(first.options)) == {
        "delay_s": "1.5",
        "priority": "1000",
        "domain": "d&d",
        "key": "k&k",
        "unique": "ü|?",
        "child": "1",
    }
    assert second == NewJob("mail", b"", "sibling=1")
    assert third == NewJob("mail", b"x", "child=1")
    assert b"J: mail?bad option|x [not a new job" in seen.stopped[0].log


@pytest.mark.parametrize("lang", behaviours("enqueue_wrong"))
async def test_a_wrong_option_is_an_error_of_the_call(runner: Runner, lang: str) -> None:
    seen = await run(runner, handler(lang, "enqueue_wrong"), jobs("7", "0"))
    assert seen.exitcodes == [500, 200]
    assert b"priority must be 0, 500 or 1000, not 7" in seen.results[0]
    assert seen.stopped[1].new_jobs == (NewJob("mail", b"", "priority=0"),)


@pytest.mark.parametrize("lang", behaviours("enqueue_empty"))
async def test_an_empty_option_is_an_error_of_the_call_and_none_is_none(runner: Runner, lang: str) -> None:
    names = ("unique", "key", "domain")
    seen = await run(runner, handler(lang, "enqueue_empty"), jobs(*names))
    assert seen.exitcodes == [500, 500, 500]
    for name, result in zip(names, seen.results, strict=True):
        assert f"{name} is empty: leave it out".encode() in result
    seen = await run(runner, handler(lang, "enqueue_empty"), [job._replace(attempts=0) for job in jobs(*names)])
    assert [stopped.new_jobs for stopped in seen.stopped] == [(NewJob("mail", b""),)] * 3


LIMITS = {"max_attempts": 3, "retry_base_ms": 250, "retry_max_ms": 9000, "retry_window_s": 90, "max_wait_s": 5}


@pytest.mark.parametrize("lang", behaviours("enqueue_limits"))
async def test_new_jobs_have_retries_and_expiry_of_their_own(runner: Runner, lang: str) -> None:
    one = {"max_wait_s": 60, "retry_max_ms": None}
    seen = await run(runner, handler(lang, "enqueue_limits"), jobs(json.dumps(LIMITS), json.dumps(one)))
    first, second = (stopped.new_jobs for stopped in seen.stopped)
    assert dict(parse_qsl(first[0].options)) == {name: str(value) for name, value in LIMITS.items()}
    assert second == (NewJob("mail", b"", "max_wait_s=60"),)


@pytest.mark.parametrize("lang", behaviours("enqueue_limits"))
@pytest.mark.parametrize("name", LIMITS)
async def test_a_limit_that_cannot_be_is_an_error_of_the_call(runner: Runner, lang: str, name: str) -> None:
    values = [0, -1, "many"]
    wanted = [json.dumps({name: value}) for value in values]
    seen = await run(runner, handler(lang, "enqueue_limits"), jobs(*wanted))
    assert seen.exitcodes == [500] * len(values)
    said = name if lang != "node" else "".join(part.title() if at else part for at, part in enumerate(name.split("_")))
    for result in seen.results[:2]:
        assert f"{said} must be a whole number from 1 on".encode() in result
    assert said.encode() in seen.results[2]
    assert [stopped.new_jobs for stopped in seen.stopped] == [()] * len(values)


async def test_lines_of_sh_have_options(runner: Runner) -> None:
    seen = await run(runner, Handler("sh", "echo 'J: mail?delay_s=5&unique=a%7Cb|x|y'"), jobs("x"))
    assert seen.stopped[0].new_jobs == (NewJob("mail", b"x|y", "delay_s=5&unique=a%7Cb"),)


@pytest.mark.parametrize("lang", behaviours("children"))
async def test_a_parent_sees_its_children_and_the_next_job_does_not(runner: Runner, lang: str) -> None:
    seen = await run_parent(runner, handler(lang, "children"))
    assert json.loads(seen.results[0]) == [["c1", "ok", '{"n":1}\tä\n'], ["c2", "cancelled", None]]
    after = await run(runner, handler(lang, "children"), jobs("y", "z"))
    assert [json.loads(result) for result in after.results] == [[], []]


async def test_a_parent_in_sh_has_them_in_a_file(runner: Runner) -> None:
    made = Handler("sh", 'cat "$JOB_CHILDREN"; echo "$JOB_CHILDREN"')
    seen = await run_parent(runner, made)
    log = seen.stopped[0].log.decode()
    assert log.startswith(LINES)
    after = await run(runner, made, jobs("y"))
    assert after.stopped[0].log == b"/dev/null\n"


async def test_a_result_of_any_text_can_be_read_back_in_sh(runner: Runner) -> None:
    """A digit behind a NUL was read as a part of its number."""
    (job,) = jobs("x")
    result = "a\0" + "12\\n\t\r\n\0"
    children = json.dumps([{**CHILDREN[0], "result": result}]).encode()
    seen = Run()
    body = """printf %b "$(cut -f5 "$JOB_CHILDREN")" | od -An -v -tx1"""
    parent = ParentJob(job.id, job.data, job.attempts, children)
    await runner.run_jobs("acme-test", [parent], Handler("sh", body), seen.hear)
    assert bytes.fromhex(seen.stopped[0].log.decode()) == result.encode()


@pytest.mark.slow
async def test_a_parent_in_wasm_has_them_in_its_environment(runner: Runner) -> None:
    need_language("wasm")
    seen = await run_parent(runner, Handler("wasm", print_environment(), memory_mb=192))
    assert f"JOB_CHILDREN={LINES}" in seen.stopped[0].log.decode()

"""What is particular to node: what is thrown and why, output in pieces, the times of a retry."""

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import Run, jobs, need_language, run

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def node(runner: Runner, body: str, *payloads: str) -> Run:
    need_language("node")
    return await run(runner, Handler("node", body, memory_mb=192, timeout_s=20), jobs(*payloads))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("throw new Error('outer', {cause: new TypeError('inner')})", ["Error: outer", "Caused by: TypeError: inner"]),
        (
            "throw new AggregateError([new Error('one'), new Error('two')], 'both')",
            ["AggregateError: both", "Caused by: Error: one", "Caused by: Error: two"],
        ),
        ("await fetch('http://127.0.0.1:1/')", ["TypeError: fetch failed", "Caused by: "]),
        ("throw {code: 5, message: 'plain'}", ["thrown: { code: 5, message: 'plain' }"]),
        ("throw new Error('x'.repeat(20000))", ["Error: xxx"]),
        ("const e = new Error('round'); e.cause = e; throw e", ["Error: round"]),
        ("throw new Error('odd', {cause: new Proxy({}, {get() { throw 1 }})})", ["Error: odd", "Caused by: thrown: "]),
    ],
)
async def test_an_error_is_told_with_its_cause(runner: Runner, body: str, told: list[str]) -> None:
    (stopped,) = (await node(runner, body, "x")).stopped
    lines = stopped.result.decode().splitlines()
    starts = [line for line in lines if not line.startswith(" ") and line != "}"]
    assert len(stopped.result) <= 8000
    for line, start in zip(starts, told, strict=False):
        assert line.startswith(start), lines
    assert len(starts) >= len(told)


async def test_a_character_may_be_printed_in_two_pieces(runner: Runner) -> None:
    body = "const e = Buffer.from('é'), o = process.stdout; o.write(e.subarray(0, 1)); o.write(e.subarray(1)); return 1"
    (stopped,) = (await node(runner, body, "x")).stopped
    assert stopped.log == "é".encode()


async def test_what_was_dropped_is_told_to_the_job_that_printed_it(runner: Runner) -> None:
    body = """if (payload !== 'big') return console.log('hi');
process.stdout.write('x'.repeat(1000000));
await new Promise((done) => setTimeout(done, 60));
process.stdout.write('x'.repeat(1000000) + '\\n');"""
    (first,) = (await node(runner, body, "big")).stopped
    (second,) = (await node(runner, body, "small")).stopped
    assert (first.log_dropped > 0, second.noted_log) == (True, b"hi\n")


@pytest.mark.parametrize("after", ["null", "undefined"])
async def test_a_retry_without_a_time_has_the_usual_pause(runner: Runner, after: str) -> None:
    (stopped,) = (await node(runner, f"ctx.retry({{afterS: {after}}})", "x")).stopped
    assert (stopped.exitcode, stopped.retry_after_ms) == (100, None)


async def test_a_retry_after_no_number_is_an_error(runner: Runner) -> None:
    (stopped,) = (await node(runner, "ctx.retry({afterS: NaN})", "x")).stopped
    assert b"ctx.retry takes seconds" in stopped.result


async def test_a_new_job_that_was_refused_does_not_count(runner: Runner) -> None:
    body = "try { ctx.enqueue('x', 'x'.repeat(17000000)) } catch {} ctx.enqueue('y', 'z')"
    (stopped,) = (await node(runner, body, "x")).stopped
    assert [made.type for made in stopped.new_jobs] == ["y"]


async def test_a_generator_is_no_handler(runner: Runner) -> None:
    (stopped,) = (await node(runner, "function* handler(payload) { yield 1 }", "x")).stopped
    assert (stopped.code, b"is a generator function" in stopped.result) == ("error", True)


@pytest.mark.parametrize(
    "body",
    [
        "function* pages() { yield 1 }\nasync function handler(payload, ctx) { return [...pages()] }",
        "(payload, ctx) => {\n  function* gen() { yield 1; }\n  return [...gen()];\n}",
        "const handler = p => {\n return [...(\n function* () { yield 1 })()]; }",
    ],
)
async def test_a_handler_may_use_generators(runner: Runner, body: str) -> None:
    assert (await node(runner, body, "x")).results == [b"[1]"]


async def test_half_a_character_is_no_other_jobs(runner: Runner) -> None:
    body = "process.stdout.write(payload === 'half' ? Buffer.from('é').subarray(0, 1) : Buffer.from('hello'))"
    for payloads in (("half", "whole"), ("half",), ("whole",)):
        seen = await node(runner, f"{body}; return 1", *payloads)
        logs = [b"hello" if each == "whole" else "\ufffd".encode() for each in payloads]
        assert [one.log for one in seen.stopped] == logs


@pytest.mark.parametrize("is_before", [True, False])
async def test_an_error_that_escapes_a_hook_is_told(runner: Runner, is_before: bool) -> None:
    """All that was said was an exit status."""
    need_language("node")
    escapes = (
        "setTimeout(() => { throw new Error('late'); }, 1); await new Promise(() => setTimeout(() => {}, 20_000));"
    )
    before, after = (escapes, "") if is_before else ("", escapes)
    made = Handler("node", "payload => payload", memory_mb=192, timeout_s=20, before_each=before, after_each=after)
    seen = await run(runner, made, jobs("a", "b"))
    assert seen.exitcodes == [502, 502]
    assert any(b"Error: late" in one.log for one in seen.stopped), "of the first, or of the last that had stopped"

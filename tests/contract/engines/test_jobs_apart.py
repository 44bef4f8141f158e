"""Jobs that run one after the other in a warm context have nothing of each other, whenever they print."""

import select

import pytest

from handlers.model import Handler
from runner.runner import Runner
from runner.wire import Wire
from tests.support.engines import jobs, languages, run, wasi
from vocabulary.new_job import NewJob

pytestmark = pytest.mark.asyncio(loop_scope="module")

AFTER_A_WHILE = """read -r x || true
case $x in
a) sleep 0.1; echo "S: 404 no"; echo "C: of a" ;;
*) exit 75 ;;
esac"""

SPINS = """
(drop (call $read (i32.const 64)))
(if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 97)) (then
  (loop $spin
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $spin (i32.lt_u (local.get $n) (i32.const 300000000))))
  (call $print (i32.const 100) (i32.const 18))))
(call $exit (i32.const 75))"""
"""Long enough that what it prints leaves at once."""

LATE_MARKS = {"sh": AFTER_A_WHILE, "wasm": wasi(SPINS, '(data (i32.const 100) "S: 404 no\\0aC: of a\\0a")')}


@pytest.mark.parametrize("lang", languages(*LATE_MARKS))
async def test_the_status_of_a_job_and_what_it_carries_are_its_own(runner: Runner, lang: str) -> None:
    seen = await run(runner, Handler(lang, LATE_MARKS[lang], memory_mb=192), jobs("a", "b", "c"))
    assert [(one.exitcode, one.result, one.carried) for one in seen.stopped] == [
        (404, b"no", b"of a"),
        (100, b"", None),
        (100, b"", None),
    ]


DEEP_PROGRESS = """read -r x || true
case $x in
b) sleep 0.1; printf 'P: '; head -c 5000 /dev/zero | tr '\\0' '['; echo; sleep 0.3; exit 65 ;;
*) echo "S: 200 $x" ;;
esac"""


async def test_progress_that_is_too_deep_costs_no_job_of_sh_the_status_of_the_one_before(runner: Runner) -> None:
    """Its job was over for the context, and not for the shell: all that followed had the status of another."""
    seen = await run(runner, Handler("sh", DEEP_PROGRESS), jobs("a", "b", "c", "d"))
    assert [(one.exitcode, one.result) for one in seen.stopped] == [(200, b"a"), (400, b""), (200, b"c"), (200, b"d")]
    assert seen.stopped[1].log.startswith(b"P: [[[[")


OPEN_LINES = {
    "python": """import time
if payload == 'a': time.sleep(0.05); print('abc', end='')
else: print('J: mail|' + payload)""",
    "sh": """read -r x || true
if [ "$x" = a ]; then sleep 0.1; printf abc; sleep 0.3; else echo "J: mail|$x"; fi""",
}


@pytest.mark.parametrize("lang", languages(*OPEN_LINES))
async def test_a_line_that_a_job_leaves_open_hides_no_new_job_of_the_next(runner: Runner, lang: str) -> None:
    seen = await run(runner, Handler(lang, OPEN_LINES[lang]), jobs("a", "b"))
    assert seen.exitcodes == [200, 200]
    assert [one.new_jobs for one in seen.stopped] == [(), (NewJob("mail", b"b"),)]


async def test_a_type_that_turns_out_to_define_no_handler_gets_none_of_another_type(runner: Runner) -> None:
    first = Handler("python", "def handler(payload, ctx): return 'of the first'", eid="shared")
    second = Handler("python", "if not __name__:\n    def handler(payload, ctx): return 1", eid="shared")
    assert (await run(runner, first, jobs("x"), "acme-first")).results == [b'"of the first"']
    seen = await run(runner, second, jobs("x"), "acme-second")
    assert seen.exitcodes == [500]
    assert b"handler is not a function" in seen.results[0]


OPEN_HOOKS = {
    "python": ("print('loading', end='')", "print('J: mail|' + payload); return 404, 'no'"),
    "sh": ("printf loading", 'read -r x || true; echo "J: mail|$x"; echo \'S: 404 "no"\''),
}


@pytest.mark.parametrize("lang", languages(*OPEN_HOOKS))
@pytest.mark.parametrize("hook", ["before", "before_each"])
async def test_a_line_that_a_hook_leaves_open_hides_no_mark_of_the_first_job(
    runner: Runner, lang: str, hook: str
) -> None:
    text, body = OPEN_HOOKS[lang]
    seen = await run(runner, Handler(lang, body, **{hook: text}), jobs("a", "b"))  # type: ignore[arg-type]
    assert [(one.exitcode, one.result) for one in seen.stopped] == [(404, b'"no"')] * 2
    assert [one.new_jobs for one in seen.stopped] == [(NewJob("mail", b"a"),), (NewJob("mail", b"b"),)]
    assert b"".join(one.log for one in seen.stopped) == b"loading\n"


AFTER = {
    "python": ("print('body')", "print('after'); print('J: mail|after'); print('open', end='')"),
    "sh": ("echo body", "echo after; echo 'J: mail|after'; echo 'S: 404 after'; printf open"),
}


@pytest.mark.parametrize("lang", languages(*AFTER))
async def test_what_after_each_prints_is_no_jobs(runner: Runner, lang: str) -> None:
    body, after_each = AFTER[lang]
    for _ in range(2):
        seen = await run(runner, Handler(lang, body, after_each=after_each), jobs("x"))
        assert [(one.exitcode, one.log, one.new_jobs) for one in seen.stopped] == [(200, b"body\n", ())]


async def test_what_a_hook_that_fails_prints_is_seen_with_its_own_batch(runner: Runner) -> None:
    before_each = """tries = globals().get('tries', 0) + 1
if tries == 1: print('J: mail|x'); print('why'); print('open', end=''); raise ValueError"""
    made = Handler("python", "print('body')", before_each=before_each)
    seen = [(await run(runner, made, jobs("x"))).stopped[0] for _ in range(2)]
    assert [(one.exitcode, one.log, one.new_jobs) for one in seen] == [(500, b"why\nopen\n", ()), (200, b"body\n", ())]


async def test_a_hook_has_no_status_and_carries_nothing(runner: Runner) -> None:
    said = "echo 'S: 404 of a hook'; echo 'C: of a hook'"
    seen = await run(runner, Handler("sh", "true", before=said, before_each=said), jobs("x"))
    assert [(one.exitcode, one.result, one.carried) for one in seen.stopped] == [(200, b"", None)]


@pytest.mark.parametrize("wrong", ["b'x'", "None", "7"])
async def test_what_cannot_be_printed_is_an_error_of_its_line_and_of_no_other(runner: Runner, wrong: str) -> None:
    body = f"""import sys
print('before')
try: sys.stdout.write({wrong})
except TypeError:
    if payload == 'raise': raise
print('after')"""
    seen = await run(runner, Handler("python", body), jobs("catch", "raise"))
    assert seen.exitcodes == [200, 500]
    assert b"".join(one.log for one in seen.stopped) == b"before\nafter\nbefore\n"
    assert f"sys.stdout.write({wrong})".encode() in seen.results[1]
    assert b"TypeError: write() takes a str, not " in seen.results[1]


LATE = """read -r x || true
case $x in
a) (until [ -e "$TMPDIR/b" ]; do sleep 0.01; done; echo "S: 418 late"; echo "J: mail|late"
    head -c 300000 /dev/zero; : > "$TMPDIR/told") & ;;
b) : > "$TMPDIR/b"; until [ -e "$TMPDIR/told" ]; do sleep 0.01; done; echo body ;;
*) echo body ;;
esac"""


async def test_what_a_process_that_a_job_left_running_prints_is_no_other_jobs(runner: Runner) -> None:
    """And it goes on, however much it prints: it is neither ended nor held up."""
    seen = await run(runner, Handler("sh", LATE, timeout_s=20), jobs("a", "b", "c"))
    assert seen.exitcodes == [200, 200, 200]
    assert [one.new_jobs for one in seen.stopped] == [(), (), ()]
    assert [one.log for one in seen.stopped] == [b"", b"body\n", b"body\n"]


async def test_many_processes_that_jobs_left_running_use_nothing_up(runner: Runner) -> None:
    """More of them, one after the other, than a context may have open files."""
    seen = await run(runner, Handler("sh", "sleep 0.02 & echo body", timeout_s=20), jobs(*"x" * 300))
    assert set(seen.exitcodes) == {200}
    assert b"".join(one.log for one in seen.stopped) == b"body\n" * 300


async def test_a_process_that_prints_without_end_holds_up_no_other_job(runner: Runner) -> None:
    seen = await run(runner, Handler("sh", "yes & echo body", timeout_s=20), jobs("a", "b"))
    assert seen.exitcodes == [200, 200]


@pytest.mark.parametrize("clean_up", ["rm -rf ./*", 'rm -rf "$TMPDIR"/*'])
async def test_a_job_that_cleans_up_its_scratch_space_harms_no_other(runner: Runner, clean_up: str) -> None:
    made = Handler("sh", f"{clean_up}; echo body; no-such-program", before_each=":", after_each=":")
    for _ in range(2):
        seen = await run(runner, made, jobs("a", "b"))
        assert seen.exitcodes == [500, 500], seen.results
        logs = b"".join(one.log for one in seen.stopped)
        assert logs.count(b"body\n") == 2
        assert logs.count(b"handler.sh: ") == 2
        assert b"/handler.sh" not in logs


async def test_a_job_that_puts_something_in_the_way_of_the_next_ones_output_costs_one_context(runner: Runner) -> None:
    """The last of its batch: the next batch finds the folder."""
    body = 'read -r x || true; [ "$x" != a ] || for pipe in "$TMPDIR"/sh-*/output; do rm "$pipe"; mkdir "$pipe"; done'
    seen = [await run(runner, Handler("sh", body), jobs(payload)) for payload in "abc"]
    assert [one.exitcodes for one in seen] == [[200], [500], [200]]
    assert seen[1].results == [b"the scratch space cannot be written to: File exists"]


DIES = {
    "python": "import os\nif payload == 'die':\n    os.write(1, b'last words')\n    os._exit(3)\nctx.fail()",
    "node": """(payload, ctx) => {
      if (payload === 'die') { require('fs').writeSync(1, 'last words'); process.reallyExit(3); }
      ctx.fail();
    }""",
    "php": "if ($payload === 'die') { echo 'last words'; exit(3); }\n$ctx->fail();",
}


@pytest.mark.parametrize("lang", languages(*DIES))
async def test_the_last_words_of_a_context_are_with_the_job_that_ended_it(
    runner: Runner, lang: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the daemon was busy, and reads them together with the replies of the jobs before it."""
    read = Wire._readable

    def read_late(wire: Wire) -> None:
        end = select.poll()
        end.register(wire._child.reader, 0)
        if end.poll(0):
            read(wire)

    monkeypatch.setattr(Wire, "_readable", read_late)
    seen = await run(runner, Handler(lang, DIES[lang], memory_mb=192), jobs("a", "b", "die", "c"))
    assert [(one.exitcode, one.log) for one in seen.stopped] == [(400, b""), (400, b""), (502, b"last words")]
    assert len(seen.given_back) == 1

"""What is particular to php: declarations in a body, errors that nothing can catch, output buffers, variables."""

import json

import pytest

from handlers.model import Handler
from runner.runner import Runner
from tests.support.engines import Run, jobs, need_language, run
from tests.support.needs import missing
from vocabulary.new_job import NewJob

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

MANY = """
/** It's a "document" { */
#[Attribute]
final class A { function f() { return "}{$this->g('x')}"; } function g($x) { return '{'; } }
interface I {} // }
abstract class B implements I { const TEXT = <<<END
    function no() {
    END; }
class C extends B { public int $n = 1; }
enum Suit: string { case Hearts = 'H'; }
trait T { }
function &count_up() { static $n = 0; $n++; return $n; }
$f = function () { return new class { public $q = 5; }; };
if (!function_exists('guarded')) { function guarded() { return __LINE__; } }
return [(new A)->f(), (new C)->n, Suit::Hearts, count_up(), $f()->q, guarded(), later()];
function later() { return __LINE__; }
"""


async def php(runner: Runner, body: str, *payloads: str, **more: str) -> Run:
    need_language("php")
    return await run(runner, Handler("php", body, memory_mb=64, timeout_s=20, **more), jobs(*payloads))  # type: ignore[arg-type]  # hooks


async def test_what_a_body_declares_is_there_for_every_job(runner: Runner) -> None:
    seen = await php(runner, "function twice($n) { return 2 * $n; } return twice((int) $payload);", "1", "2", "3")
    assert seen.results == [b"2", b"4", b"6"]
    for start in (1, 3):
        seen = await php(runner, MANY, "x", "y")
        assert seen.results == [f'["}}{{",1,"H",{number},5,14,16]'.encode() for number in (start, start + 1)]


async def test_a_class_may_wait_for_what_it_is_based_on(runner: Runner) -> None:
    body = """$n = (new Later)->n();
if (!class_exists('Base')) { eval('class Base { function n() { return 7; } }'); }
class Own extends Base { }
class Later extends Sooner { use Early; }
class Sooner { function n() { return 5; } }
if (!trait_exists('Given')) { eval('trait Given { }'); }
class Both { use Given, Early; }
trait Early { }
return ['n' => $n, 'own' => (new Own)->n(), 'both' => (bool) new Both];"""
    for _ in range(2):
        assert (await php(runner, body, "x", "y")).results == [b'{"n":5,"own":7,"both":true}'] * 2


@pytest.mark.parametrize(
    "body",
    [
        'function f($x) { return "use shop; $x"; } return f(1) === "use shop; 1";',
        "function f($x) {\n // callers use this;\n return $x; }\nreturn f(true);",
        (
            "if (!trait_exists('Kept')) { eval('trait Kept { }'); }\n"
            "function f() { return new class { use Kept; }; }\nreturn (bool) f();"
        ),
    ],
)
async def test_a_function_may_say_use(runner: Runner, body: str) -> None:
    assert (await php(runner, body, "x", "y")).results == [b"true"] * 2


TEMPLATE = """function tag($x) { return "<$x>"; }
ob_start(); foreach ([1, 2] as $n): ?>
it's <?= tag($n) ?> {
<?php endforeach; // that is it ?>
function greet() { alert("hi"); } class No { }
<?php function later() { return 'later'; }
return ob_get_clean() . later();"""


async def test_text_outside_php_is_no_code(runner: Runner) -> None:
    told = "it's <1> {\nit's <2> {\nfunction greet() { alert(\"hi\"); } class No { }\nlater"
    assert [json.loads(one) for one in (await php(runner, TEMPLATE, "x", "y")).results] == [told] * 2
    seen = await php(runner, "// note ?>it's\n<?php\nfunction f() { return 2; }\nreturn f();", "x", "y")
    assert (seen.results, [one.log for one in seen.stopped]) == ([b"2"] * 2, [b"it's\n"] * 2)


@pytest.mark.parametrize(
    "body",
    [
        "class Größe { public $n = 6; }\nreturn (new Größe)->n;",
        "trait Maß { public $n = 6; } class Größe { use Maß; }\nreturn (new Größe)->n;",
        "function größe() { return strlen(<<<Ö\n  sechs!\n  Ö); }\nreturn größe();",
        (
            "if (1): if (!function_exists('b')):\nfunction a() { return 1; }\nfunction b() { return 2; }\n"
            "endif; else: endif;\nfunction c() { return 3; }\nreturn a() + b() + c();"
        ),
        "switch (1): case 1: if (1):\nif (!function_exists('d')) { function d() { return 6; } }\nendif; endswitch;\nreturn d();",  # noqa: E501
    ],
)
async def test_declarations_are_found_by_their_names_and_left_in_their_blocks(runner: Runner, body: str) -> None:
    for _ in range(2):
        assert (await php(runner, body, "x", "y")).results == [b"6"] * 2


async def test_a_class_may_wait_for_what_an_autoloader_does_not_find(runner: Runner) -> None:
    before = 'spl_autoload_register(function ($name) { require "lib/$name.php"; });'
    body = """if (!class_exists('Given', false)) { eval('class Given { public $n = 7; }'); }
class Mine extends Given { }
return (new Mine)->n;"""
    assert (await php(runner, body, "x", "y", before=before)).results == [b"7"] * 2


async def test_also_what_a_hook_declares(runner: Runner) -> None:
    for _ in range(2):
        seen = await php(runner, "return five();", "x", before_each="function five() { return 5; }")
        assert seen.results == [b"5"]


async def test_lines_of_what_was_declared_are_those_of_the_text(runner: Runner) -> None:
    seen = await php(runner, "function f() {\n  throw new Exception('x');\n}\n\nfunction g() {\n  f();\n}\ng();", "x")
    told = b"Exception: x in line 2\n#0 handler.php(6): f()\n#1 handler.php(8): g()"
    assert seen.results == [told]


async def test_two_handlers_of_a_context_cannot_declare_one_name_differently(runner: Runner) -> None:
    same, other = "function one() { return 1; }", "function one() { return 2; }"
    assert (await php(runner, f"{same} return one();", "x", eid="e")).results == [b"1"]
    assert (await php(runner, f"{same} return 10 * one();", "x", eid="e")).results == [b"10"]
    seen = await php(runner, f"{other} return one();", "x", eid="e")
    assert seen.exitcodes == [500]
    assert b"declares the function one, and there is another one of that name" in seen.results[0]


async def test_an_error_that_nothing_can_catch_is_told(runner: Runner) -> None:
    body = "echo \"seen\\n\"; if ($payload === '1') { eval('class stdClass {}'); } return 1;"
    seen = await php(runner, body, "0", "1", "2")
    assert seen.exitcodes == [200, 500]
    assert seen.results[1].startswith(b"Fatal error: Cannot declare class stdClass")
    assert b"bootstraps" not in seen.results[1]
    assert b"".join(one.log for one in seen.stopped) == b"seen\n" * 2
    assert len(seen.given_back) == 1


@pytest.mark.parametrize("start", ['echo "seen\\n";', 'echo "seen\\n"; usleep(50000);', 'ob_start(); echo "seen\\n";'])
async def test_what_was_printed_before_exit_is_shown_once(runner: Runner, start: str) -> None:
    seen = await php(runner, f"{start} exit(3);", "x")
    assert (seen.exitcodes, seen.stopped[0].log) == ([502], b"seen\n")


async def test_what_a_job_printed_before_exit_is_not_said_by_the_job_before_it(runner: Runner) -> None:
    """It was on the raw log, where it could be taken for the other's. So its new jobs were made, and again when it was
    tried again."""
    body = "if ($payload === 'c') { echo \"J: made|c\\nbye\\n\"; exit(1); } return 1;"
    for _ in range(3):
        seen = await php(runner, body, "a", "b", "c", "d")
        assert [(one.exitcode, one.log, one.new_jobs) for one in seen.stopped] == [
            (200, b"", ()),
            (200, b"", ()),
            (502, b"bye\n", ()),
        ]
        assert len(seen.given_back) == 1


@pytest.mark.parametrize("end", ["exit(0);", "return 2;", "str_repeat('a', 1 << 40);", "throw new Error('x');"])
async def test_a_forked_copy_says_nothing_of_the_job(runner: Runner, end: str) -> None:
    """What the job had printed was said again by a copy, its new jobs too, and a copy that returned went on in its
    place."""
    (asked,) = (await php(runner, "return function_exists('pcntl_fork');", "x")).results
    if asked != b"true":
        missing("php has no pcntl", "its packages for the command line have it on Debian")
    fork = f'$pid = pcntl_fork(); if (!$pid) {{ echo "copy\\n"; {end} }} pcntl_waitpid($pid, $status); return 1;'
    seen = await php(runner, f'echo "J: made|x\\nseen\\n"; {fork}', "a", "b")
    assert (seen.exitcodes, seen.results) == ([200, 200], [b"1", b"1"])
    assert [len(one.new_jobs) for one in seen.stopped] == [1, 1]
    assert b"".join(one.log for one in seen.stopped).count(b"seen\n") == 2


async def test_out_of_memory(runner: Runner) -> None:
    body = "for ($a = []; $payload === '1';) { $a[] = str_repeat('x', 1 << 20); } return 0;"
    seen = await php(runner, body, "0", "1")
    assert seen.exitcodes == [200, 507]
    assert seen.results[1] == b"out of memory: the limit is 64 MB"


async def test_a_job_has_the_memory_of_its_context(runner: Runner) -> None:
    made = Handler("php", "return strlen(str_repeat('x', 150 << 20));", memory_mb=256)
    need_language("php")
    assert (await run(runner, made, jobs("x"))).results == [str(150 << 20).encode()]


async def test_new_jobs_are_kept_whatever_is_printed_after_them(runner: Runner) -> None:
    body = 'echo "J: mail|x\\n"; echo str_repeat("a", 5 << 20); echo "J: mail|no\\n#J: mail|y\\n"; return 1;'
    (stopped,) = (await php(runner, body, "x")).stopped
    assert stopped.new_jobs == (NewJob("mail", b"x"), NewJob("mail", b"y"))
    (stopped,) = (await php(runner, 'echo "J: mail|", str_repeat("x", 5 << 20);', "x")).stopped
    assert (stopped.exitcode, stopped.new_jobs) == (413, ())


@pytest.mark.parametrize(
    "body",
    [
        "while (ob_get_level()) ob_end_clean(); echo 'hello'; return 1;",
        "while (ob_get_level()) ob_end_clean(); ob_start(); echo 'hello'; return 1;",
        "ob_start(); ob_start(); echo 'hello'; return 1;",
        "ob_start(); echo 'no'; ob_end_clean(); echo 'hello'; return 1;",
    ],
)
async def test_a_job_may_do_with_output_buffers_as_it_likes(runner: Runner, body: str) -> None:
    for payload in ("x", "y"):
        (stopped,) = (await php(runner, body, payload)).stopped
        assert (stopped.exitcode, stopped.result, stopped.log) == (200, b"1", b"hello")


@pytest.mark.parametrize("culprit", [0, 1, 2])
async def test_what_is_printed_past_all_buffers_is_the_jobs_own(runner: Runner, culprit: int) -> None:
    body = r"""if ($payload === 'a') { while (ob_get_level()) ob_end_clean(); echo "hello\nJ: mail|x\n"; } return 1;"""
    seen = await php(runner, body, *("a" if number == culprit else "b" for number in range(3)))
    none: tuple[bytes, tuple[NewJob, ...]] = (b"", ())
    told = [(b"hello\n", (NewJob("mail", b"x"),)) if number == culprit else none for number in range(3)]
    assert [(one.log, one.new_jobs) for one in seen.stopped] == told


async def test_jobs_get_the_variables_of_hooks(runner: Runner) -> None:
    hooks = {
        "before": "$n = 5; $payload = 'no'; return;",
        "before_each": "$n++; $each = 'b';",
        "after_each": "$n += 10;",
    }
    for n in (6, 17):
        seen = await php(runner, "$was = $n; $n = 0; return [$was, $each, $payload];", "x", "y", **hooks)
        assert seen.results == [f'[{n},"b","{payload}"]'.encode() for payload in "xy"]


@pytest.mark.parametrize(
    "body",
    [
        "<?php\n// strictly\ndeclare(strict_types=1);\nreturn __LINE__ === 4;",
        "return true; ?>\n",
        "return @file_get_contents('none') === false;",
        "return !@mkdir('/proc/x/y') && str_contains(error_get_last()['message'], 'mkdir');",
        "try { $ctx->enqueue('x', str_repeat('x', 2 << 23)); } catch (Error) {}\n$ctx->enqueue('y', 'z'); return true;",
    ],
)
async def test_what_is_common_in_php_files_works(runner: Runner, body: str) -> None:
    assert (await php(runner, body, "x", "y")).results == [b"true"] * 2


async def test_strict_types_are_strict(runner: Runner) -> None:
    body = "function f(int $n) { return $n; } return f('1');"
    assert (await php(runner, body, "x")).results == [b"1"]
    (result,) = (await php(runner, f"declare(strict_types=1); {body}", "x")).results
    assert b"TypeError" in result
    inside = (
        "declare(strict_types=1);\nfunction g() { return strlen(5); } class H { function f() { return strlen(5); } }\n"
    )
    for call in ("return g();", "return (new H)->f();"):
        (result,) = (await php(runner, inside + call, "x")).results
        assert b"TypeError" in result


async def test_an_error_names_the_line_of_the_tenant_and_its_cause(runner: Runner) -> None:
    (result,) = (await php(runner, "$a = 1;\n$ctx->enqueue('bad type', 'x');", "x")).results
    assert result.splitlines()[0].endswith(b" in line 2"), result
    body = (
        "try {\n throw new Exception('inner');\n} catch (Exception $e) {\n throw new LogicException('outer', 0, $e);\n}"
    )
    (result,) = (await php(runner, body, "x")).results
    assert result.splitlines()[0] == b"LogicException: outer in line 4"
    assert result.splitlines()[-1] == b"Caused by: Exception: inner in line 2"

"""What the engine suites share: jobs, a record of how they stopped, the same behaviours in every language."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import wasmtime

from handlers.languages import LANGUAGES
from handlers.model import Handler
from runner.outcome import Stopped
from runner.runner import Runner
from tests.support.needs import missing


class Job(NamedTuple):
    id: str
    data: bytes
    attempts: int = 1
    options: str = ""


def jobs(*payloads: bytes | str) -> list[Job]:
    data = [text.encode() if isinstance(text, str) else text for text in payloads]
    return [Job(f"20261114T235959123Z-a7-{number:06x}", text) for number, text in enumerate(data)]


@dataclass
class Run:
    """One call of run_jobs and all that was heard of it."""

    stopped: list[Stopped] = field(default_factory=list)
    chunks: int = 0
    given_back: list[str] = field(default_factory=list)

    def hear(self, stopped: Sequence[Stopped]) -> None:
        self.stopped += stopped
        self.chunks += 1

    @property
    def exitcodes(self) -> list[int]:
        return [one.exitcode for one in self.stopped]

    @property
    def results(self) -> list[bytes]:
        return [one.result for one in self.stopped]


async def run(runner: Runner, handler: Handler, batch: Sequence[Job], jobtype: str = "acme-test") -> Run:
    need_language(handler.lang)
    seen = Run()
    seen.given_back = await runner.run_jobs(jobtype, batch, handler, seen.hear)
    ids = [one.id for one in seen.stopped] + seen.given_back
    assert sorted(ids) == sorted(job.id for job in batch), "a job was lost or reported twice"
    return seen


# Looked up once, at import: tests ask on the event loop, where nothing may touch the file system.
_LACKING = {name: language.missing() for name, language in LANGUAGES.items()}


def need_language(name: str) -> None:
    lacking = _LACKING[name]
    if lacking is not None:
        missing(lacking, f"`make system` installs what {name} needs")


def wasm(wat: str) -> str:
    return base64.b64encode(bytes(wasmtime.wat2wasm(wat))).decode()


def print_environment() -> str:
    """A module that prints the variables of its environment, each with a NUL behind it."""
    return wasm("""
    (module
      (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
      (memory (export "memory") 4)
      (func (export "_start")
        (drop (call $sizes (i32.const 0) (i32.const 12)))
        (drop (call $environ_get (i32.const 1024) (i32.const 65536)))
        (i32.store (i32.const 8) (i32.const 65536))
        (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16)))))""")


def wasi(code: str, data: str = "") -> str:
    """A WASI command from the inside of its _start; $print writes `length` bytes of memory to stdout."""
    return wasm(f"""
    (module
      (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 2)
      {data}
      (func $print (param $at i32) (param $length i32)
        (i32.store (i32.const 8) (local.get $at)) (i32.store (i32.const 12) (local.get $length))
        (drop (call $fd_write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 16))))
      (func $read (param $at i32) (result i32)
        (i32.store (i32.const 8) (local.get $at)) (i32.store (i32.const 12) (i32.const 4096))
        (drop (call $fd_read (i32.const 0) (i32.const 8) (i32.const 1) (i32.const 16)))
        (i32.load (i32.const 16)))
      (func $start (export "_start") (local $n i32) {code}))
    """)


def _wasi_says(text: str, exit_status: int = 0) -> str:
    literal = "".join(f"\\{byte:02x}" for byte in text.encode())
    length = len(text.encode())
    code = f"(call $print (i32.const 100) (i32.const {length})) (call $exit (i32.const {exit_status}))"
    return wasi(code, f'(data (i32.const 100) "{literal}")')


# Behaviours that every engine has, written in each language.
BODIES: dict[str, dict[str, str]] = {
    "python": {
        "nothing": "pass",
        "echo": "return payload",
        "retry": "ctx.retry(after_s=1.5)",
        "fail": "ctx.fail('bad data')",
        "error": "raise RuntimeError('oh dear')",
        "log": "print('hello'); print('world')",
        "new_jobs": "print('J: mail|to bob'); print('#J: mail|to eve'); print('J: nonsense')",
        "new_jobs_then_error": "print('J: mail|to bob'); raise RuntimeError",
        "enqueue": "ctx.enqueue('mail', 'a|b', delay_s=1.5, priority=1000, domain='d&d', key='k&k', unique='ü|?',"
        " child=True)\n"
        "ctx.enqueue('mail', sibling=True)\nprint('J: mail?child=1|x')\nprint('J: mail?bad option|x')",
        "enqueue_wrong": "ctx.enqueue('mail', priority=int(payload))",
        "enqueue_empty": "ctx.enqueue('mail', **{payload: '' if ctx.attempt else None})",
        "enqueue_limits": "import json; ctx.enqueue('mail', **json.loads(payload))",
        "children": "return [[c['id'], c['code'], c['result']] for c in ctx.children]",
        "follows": "return [ctx.id, ctx.follows]",
        "carry": "ctx.carry({'n': int(payload) + 1})",
        "carry_and_retry": "ctx.carry(payload + '!'); ctx.retry()",
        "carry_then_error": "ctx.carry('lost'); raise RuntimeError",
        "carry_too_much": "ctx.carry('x' * (1 << 20) + 'y')",
        "new_job_too_big": """print('J: mail|a'); ctx.enqueue('mail', 'b'); ctx.carry('c')
ctx.enqueue('mail', 'x' * (1 << 20))""",
        "spin": "while True: pass",
        "crash_at_2": "import os\nif payload == '2': os._exit(3)",
        "spin_at_2": "while payload == '2': pass",
        "many_new_jobs": "for i in range(2000): print('J: mail|x')",
        "much_log": "for i in range(5000): print('0123456789' * 10)",
        "endless_line": "for i in range(3000): print('x' * 1000, end='')",
        "child_prints": "import subprocess; subprocess.run(['echo', 'from a child'])",
        "environment": "import os; return os.environ['COLOUR']",
        "bad_status": "return 300, None",
        "number": "return int(payload)",
    },
    "node": {
        "nothing": "(payload, ctx) => {}",
        "echo": "(payload) => payload",
        "retry": "(payload, ctx) => ctx.retry({afterS: 1.5})",
        "fail": "(payload, ctx) => ctx.fail('bad data')",
        "error": "() => { throw new Error('oh dear') }",
        "log": "() => { console.log('hello'); console.error('world') }",
        "new_jobs": "() => { console.log('J: mail|to bob\\n#J: mail|to eve\\nJ: nonsense') }",
        "new_jobs_then_error": "() => { console.log('J: mail|to bob'); throw new Error('no') }",
        "enqueue": "(payload, ctx) => { ctx.enqueue('mail', 'a|b', {delayS: 1.5, priority: 1000, domain: 'd&d',"
        " key: 'k&k', unique: 'ü|?', child: true}); ctx.enqueue('mail', '', {sibling: true});"
        " console.log('J: mail?child=1|x'); console.log('J: mail?bad option|x') }",
        "enqueue_wrong": "(payload, ctx) => ctx.enqueue('mail', '', {priority: Number(payload)})",
        "enqueue_empty": "(payload, ctx) => ctx.enqueue('mail', '', {[payload]: ctx.attempt ? '' : null})",
        "enqueue_limits": "(payload, ctx) => ctx.enqueue('mail', '', Object.fromEntries(Object.entries("
        "JSON.parse(payload)).map(([k, v]) => [k.replace(/_(.)/g, (_, c) => c.toUpperCase()), v])))",
        "children": "(payload, ctx) => ctx.children.map((c) => [c.id, c.code, c.result])",
        "follows": "(payload, ctx) => [ctx.id, ctx.follows]",
        "carry": "(payload, ctx) => ctx.carry({n: Number(payload) + 1})",
        "carry_and_retry": "(payload, ctx) => { ctx.carry(payload + '!'); ctx.retry() }",
        "carry_then_error": "(payload, ctx) => { ctx.carry('lost'); throw new Error('no') }",
        "carry_too_much": "(payload, ctx) => ctx.carry('x'.repeat((1 << 20) + 1))",
        "new_job_too_big": """(payload, ctx) => { console.log('J: mail|a'); ctx.enqueue('mail', 'b'); ctx.carry('c')
            ctx.enqueue('mail', 'x'.repeat(1 << 20)) }""",
        "spin": "() => { for (;;); }",
        "crash_at_2": "(payload) => { if (payload === '2') process.reallyExit(3) }",
        "spin_at_2": "(payload) => { while (payload === '2'); }",
        "many_new_jobs": "() => { for (let i = 0; i < 2000; i++) console.log('J: mail|x') }",
        "much_log": "() => { for (let i = 0; i < 5000; i++) console.log('0123456789'.repeat(10)) }",
        "endless_line": "() => { for (let i = 0; i < 3000; i++) process.stdout.write('x'.repeat(1000)) }",
        "child_prints": "() => { require('child_process').execSync('echo from a child', {stdio: 'inherit'}) }",
        "environment": "() => process.env.COLOUR",
        "bad_status": "() => [300, null]",
        "number": "(payload) => Number(payload)",
    },
    "sh": {
        "nothing": "exit 0",
        "echo": 'read -r line; echo "S: 200 \\"$line\\""',
        "retry": "exit 75",
        "fail": "echo 'S: 400 \"bad data\"'",
        "error": "echo 'oh dear'; exit 7",
        "log": "echo hello; echo world >&2",
        "new_jobs": "echo 'J: mail|to bob'; echo '#J: mail|to eve'; echo 'J: nonsense'",
        "new_jobs_then_error": "echo 'J: mail|to bob'; exit 1",
        "follows": """f=null
row='{"id":"%s","type":"%s","code":"%s"}'
[ -z "$JOB_FOLLOWS" ] || f=$(printf "$row" "$JOB_FOLLOWS" "$JOB_FOLLOWS_TYPE" "$JOB_FOLLOWS_CODE")
printf 'S: 200 ["%s",%s]\\n' "$JOB_ID" "$f\"""",
        "carry": 'read -r n || :; echo "C: {\\"n\\":$((n + 1))}"',
        "carry_and_retry": 'read -r n || :; echo "#C: $n!"; exit 75',
        "carry_then_error": "echo 'C: lost'; exit 1",
        "spin": "while :; do :; done",
        "crash_at_2": 'read -r n || :; if [ "$n" = 2 ]; then kill -9 $$; fi',
        "spin_at_2": 'read -r n || :; while [ "$n" = 2 ]; do :; done',
        "many_new_jobs": "i=0; while [ $i -lt 2000 ]; do echo 'J: mail|x'; i=$((i+1)); done",
        "much_log": "i=0; while [ $i -lt 5000 ]; do printf '%0100d\\n' 0; i=$((i+1)); done",
        "endless_line": "i=0; while [ $i -lt 3000 ]; do printf '%01000d' 0; i=$((i+1)); done",
        "child_prints": "/bin/echo from a child",
        "environment": 'echo "S: 200 \\"$COLOUR\\""',
        "bad_status": "echo 'S: 300'",
    },
    "php": {
        "nothing": "return null;",
        "echo": "return $payload;",
        "retry": "$ctx->retry(1.5);",
        "fail": "$ctx->fail('bad data');",
        "error": "throw new Exception('oh dear');",
        "log": 'echo "hello\\n"; print("world\\n");',
        "new_jobs": 'echo "J: mail|to bob\\n#J: mail|to eve\\nJ: nonsense\\n";',
        "new_jobs_then_error": "echo \"J: mail|to bob\\n\"; throw new Exception('no');",
        "enqueue": "$ctx->enqueue('mail', 'a|b', delay_s: 1.5, priority: 1000, domain: 'd&d', unique: 'ü|?',"
        " child: true, key: 'k&k');"
        "$ctx->enqueue('mail', sibling: true); echo \"J: mail?child=1|x\\nJ: mail?bad option|x\\n\";",
        "enqueue_wrong": "$ctx->enqueue('mail', priority: (int) $payload);",
        "enqueue_empty": "$ctx->enqueue('mail', ...[$payload => $ctx->attempt ? '' : null]);",
        "enqueue_limits": "$ctx->enqueue('mail', ...json_decode($payload, true));",
        "children": "return array_map(fn ($c) => [$c['id'], $c['code'], $c['result']], $ctx->children);",
        "follows": "return [$ctx->id, $ctx->follows];",
        "carry": "$ctx->carry(['n' => (int) $payload + 1]);",
        "carry_and_retry": "$ctx->carry($payload . '!'); $ctx->retry();",
        "carry_then_error": "$ctx->carry('lost'); throw new Exception('no');",
        "carry_too_much": "$ctx->carry(str_repeat('x', (1 << 20) + 1));",
        "new_job_too_big": r"""echo "J: mail|a\n"; $ctx->enqueue('mail', 'b'); $ctx->carry('c');
            $ctx->enqueue('mail', str_repeat('x', 1 << 20));""",
        "spin": "while (true);",
        "crash_at_2": "if ($payload === '2') { exit(3); }",
        "spin_at_2": "while ($payload === '2');",
        "many_new_jobs": 'for ($i = 0; $i < 2000; $i++) { echo "J: mail|x\\n"; }',
        "much_log": "for ($i = 0; $i < 5000; $i++) { echo str_repeat('0123456789', 10), \"\\n\"; }",
        "endless_line": "for ($i = 0; $i < 3000; $i++) { echo str_repeat('x', 1000); }",
        "child_prints": "passthru('echo from a child');",
        "environment": "return getenv('COLOUR');",
        "bad_status": "return [300, null];",
        "number": "return (int) $payload;",
    },
    "wasm": {
        "nothing": wasi(""),
        "echo": wasi(
            """(local.set $n (call $read (i32.const 300)))
            (call $print (i32.const 200) (i32.const 8)) (call $print (i32.const 300) (local.get $n))
            (call $print (i32.const 208) (i32.const 2))""",
            '(data (i32.const 200) "S: 200 \\22\\22\\0a")',
        ),
        "retry": wasi("(call $exit (i32.const 75))"),
        "fail": _wasi_says('S: 400 "bad data"\n'),
        "error": _wasi_says("oh dear\n", exit_status=7),
        "log": _wasi_says("hello\nworld\n"),
        "new_jobs": _wasi_says("J: mail|to bob\n#J: mail|to eve\nJ: nonsense\n"),
        "new_jobs_then_error": _wasi_says("J: mail|to bob\n", exit_status=1),
        "carry": _wasi_says('C: {"n":8}\n'),
        "carry_and_retry": _wasi_says("#C: 7!\n", exit_status=75),
        "carry_then_error": _wasi_says("C: lost\n", exit_status=1),
        "spin": wasi("(loop $l (br $l))"),
        "spin_at_2": wasi(
            """(drop (call $read (i32.const 300)))
            (if (i32.eq (i32.load8_u (i32.const 300)) (i32.const 50)) (then (loop $l (br $l))))"""
        ),
        "many_new_jobs": wasi(
            """(loop $l (call $print (i32.const 200) (i32.const 10))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $l (i32.lt_s (local.get $n) (i32.const 2000))))""",
            '(data (i32.const 200) "J: mail|x\\0a")',
        ),
        "bad_status": _wasi_says("S: 300\n"),
    },
}


def language(name: str) -> Any:
    """A test parameter. `make check` leaves out php, which only `make test` installs, and wasm, which starts slowly
    without a warm template.
    """
    return pytest.param(name, marks=pytest.mark.slow) if name in {"php", "wasm"} else name


def languages(*names: str) -> list[Any]:
    return [language(name) for name in names or BODIES]


def behaviours(name: str) -> list[Any]:
    """The languages that show behaviour `name`."""
    return [language(lang) for lang, bodies in BODIES.items() if name in bodies]


def handler(lang: str, name: str, **more: Any) -> Handler:
    need_language(lang)
    more.setdefault("memory_mb", 192)
    return Handler(lang, BODIES[lang][name], **more)

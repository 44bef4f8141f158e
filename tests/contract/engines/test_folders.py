"""Handlers that are folders: modules beside the entry, data files, a place that nobody can write to."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cache
from importlib import util
from pathlib import Path

import pytest
import pytest_asyncio

from handlers.errors import HandlerSyntaxError
from handlers.model import Handler
from runner.errors import FilesMissingError
from runner.launch import Launcher, Level
from runner.runner import Runner
from tests.support.engines import jobs, need_language, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

PYTHON = """
import helper
from parts import inner

def handler(payload, ctx):
    return [helper.greet(payload), inner.WORD, open("data/words.txt").read(), __file__.endswith("main.py")]
"""
FOLDERS: dict[str, dict[str, str]] = {
    "python": {
        "main.py": PYTHON,
        "helper.py": "def greet(name):\n    return 'hello ' + name\n",
        "parts/__init__.py": "",
        "parts/inner.py": "WORD = 'inner'\n",
        "data/words.txt": "some words",
    },
    "node": {
        "main.mjs": "import { greet } from './helper.mjs';\nimport fs from 'node:fs';\n"
        "export default (payload) => [greet(payload), fs.readFileSync('data/words.txt', 'utf8')];",
        "helper.mjs": "export const greet = (name) => 'hello ' + name;",
        "data/words.txt": "some words",
    },
    "commonjs": {
        "main.js": "const { greet } = require('./helper');\nexports.handler = async (payload) => greet(payload);",
        "helper.js": "exports.greet = (name) => 'hello ' + name;",
    },
    "sh": {
        "main.sh": '. ./helper.sh\nread -r name || true\necho "S: 200 $(greet "$name") $(cat data/words.txt)"',
        "helper.sh": 'greet() { printf "hello %s" "$1"; }\n',
        "data/words.txt": "some words",
    },
    "php": {
        "main.php": "<?php\n$a = <<<END\n  don't\n  END;\nrequire_once __DIR__ . '/helper.php'; $__DIR__ = '__DIR__';\n"
        "return $__DIR__ === '__DI' . 'R__' ? greet($payload) : 0;",
        "helper.php": '<?php function greet($name) { return "hello $name"; }',
    },
}
RESULTS = {
    "python": b'["hello ada","inner","some words",true]',
    "node": b'["hello ada","some words"]',
    "commonjs": b'"hello ada"',
    "sh": b"hello ada some words",
    "php": b'"hello ada"',
}
LANGUAGE = {"commonjs": "node"}


class Folders:
    """Folders on the disk, by a digest that is none."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.asked: list[tuple[str, str]] = []

    async def add(self, tree: str, files: dict[str, str], tenant: str = "acme") -> str:
        return await asyncio.to_thread(self._add, tree, files, tenant)

    def _add(self, tree: str, files: dict[str, str], tenant: str) -> str:
        for name, text in files.items():
            path = self.base / f"{tenant}.{tree}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tree

    async def have(self, tenant: str, tree: str) -> Path:
        self.asked.append((tenant, tree))
        path = self.base / f"{tenant}.{tree}"
        if not await asyncio.to_thread(path.is_dir):
            raise FilesMissingError("the files of the handler are gone")
        return path


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "trees")


@pytest_asyncio.fixture(loop_scope="module")
async def keeper(launcher: Launcher, folders: Folders) -> AsyncIterator[Runner]:
    made = Runner(launcher, trees=folders)
    yield made
    await made._pool.close()  # the launcher is everybody's


async def folder_handler(folders: Folders, files: dict[str, str], lang: str = "python", **fields: object) -> Handler:
    entry, body = next(iter(files.items()))
    return Handler(lang=lang, body=body, entry=entry, tree=await folders.add("a" * 64, files), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("which_one", FOLDERS)
async def test_a_handler_finds_what_lies_beside_it(keeper: Runner, folders: Folders, which_one: str) -> None:
    lang = LANGUAGE.get(which_one, which_one)
    need_language(lang)
    handler = await folder_handler(folders, FOLDERS[which_one], lang)
    await keeper.check("acme-t", handler)
    done = await run(keeper, handler, jobs("ada", "ada"))
    assert [(one.exitcode, one.result) for one in done.stopped] == [(200, RESULTS[which_one])] * 2, done.stopped


async def test_a_handler_py_beside_the_entry_is_what_importing_it_gives(keeper: Runner, folders: Folders) -> None:
    body = """from __future__ import annotations
import dataclasses, pickle, handler as beside

@dataclasses.dataclass
class Own: x: int

def handler(payload, ctx): return [beside.WORD, pickle.loads(pickle.dumps(Own(7))).x]
"""
    handler = await folder_handler(folders, {"main.py": body, "handler.py": "WORD = 'beside'\n"})
    assert (await run(keeper, handler, jobs("x"))).results == [b'["beside",7]']


async def test_a_folder_cannot_be_written_to_and_shows_no_other(keeper: Runner, folders: Folders) -> None:
    await folders.add("b" * 64, {"main.py": "theirs"}, tenant="other")
    body = """
import os

def tried(path):
    try:
        with open(path, "a") as file:
            file.write("x")
    except OSError as error:
        return type(error).__name__
    return "written"

def seen(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return type(error).__name__

def handler(payload, ctx):
    here = os.getcwd()
    files = [tried("main.py"), tried("new.txt"), tried(os.environ["TMPDIR"] + "/scratch")]
    return files + [seen(os.path.dirname(here)), seen("/functory/trees")]
"""
    handler = await folder_handler(folders, {"main.py": body})
    done = await run(keeper, handler, jobs("x"))
    if keeper.level == Level.L0:
        return
    written, made, scratch, parent, trees = json.loads(done.stopped[0].result)
    assert {written, made} <= {"OSError", "PermissionError"}
    assert scratch == "written"
    assert not any("other." in name for name in parent)
    assert trees in ([], "FileNotFoundError", "PermissionError")


async def test_errors_name_the_file_and_its_line(keeper: Runner, folders: Folders) -> None:
    files = {
        "main.py": "import helper\ndef handler(payload, ctx):\n    helper.fail()\n",
        "helper.py": "def fail():\n    1 / 0\n",
    }
    done = await run(keeper, await folder_handler(folders, files), jobs("x"))
    text = done.stopped[0].result.decode()
    assert 'File "main.py", line 3' in text
    assert 'File "helper.py", line 2' in text
    with pytest.raises(HandlerSyntaxError) as caught:
        await keeper.check("acme-t", Handler(lang="python", body="def handler(:", entry="main.py", tree="a" * 64))
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("entry", "body", "line"),
    [("main.mjs", "import x from './y.mjs';\nexport default (a => ;\n", 2), ("main.cjs", "let x = ;", 1)],
)
async def test_modules_of_node_are_parsed_and_not_run(
    keeper: Runner, folders: Folders, entry: str, body: str, line: int
) -> None:
    need_language("node")
    with pytest.raises(HandlerSyntaxError) as caught:
        await keeper.check("acme-t", await folder_handler(folders, {entry: body}, "node"))
    assert caught.value.line == line
    await keeper.check("acme-t", await folder_handler(folders, {entry: "process.exit(3)"}, "node"))


TYPESCRIPT = {
    "main.ts": "import { double, type Numbers } from './parts/numbers.ts';\n"
    "interface Said { numbers: Numbers }\n"
    "export default (payload: string): Numbers => double((JSON.parse(payload) as Said).numbers);\n",
    "parts/numbers.ts": "export type Numbers = number[];\n"
    "export const double = (numbers: Numbers): Numbers => numbers.map((one: number) => 2 * one);\n",
}


@cache
def node_that_strips_types() -> str:
    """The machine's node, or the one that drives browsers in other tests; "" for neither."""
    driver = util.find_spec("playwright")
    beside = Path(driver.origin or "").parent / "driver" / "node" if driver else Path()
    for program in (shutil.which("node"), str(beside) if beside.is_file() else None):
        asked = program and subprocess.run(
            [program, "-p", "!!process.features.typescript"], capture_output=True, text=True, check=False
        )
        if program and asked and asked.stdout.strip() == "true":
            return program
    return ""


@pytest.fixture
def typed_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = node_that_strips_types()
    if not program:
        pytest.skip("no node here strips types (22.18 or later does)")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("typed_node")
async def test_typescript_runs(keeper: Runner, folders: Folders) -> None:
    handler = await folder_handler(folders, TYPESCRIPT, "node")
    await keeper.check("acme-t", handler)
    assert (await run(keeper, handler, jobs('{"numbers": [1, 2, 3]}'))).stopped[0].result == b"[2,4,6]"
    with pytest.raises(HandlerSyntaxError):
        await keeper.check("acme-t", replace(handler, body="export default (payload: ): string => payload"))


async def test_a_node_that_runs_no_typescript_says_which_one_does(keeper: Runner, folders: Folders) -> None:
    need_language("node")
    if await asyncio.to_thread(node_that_strips_types) == await asyncio.to_thread(shutil.which, "node"):
        pytest.skip("the node of this machine strips types")
    with pytest.raises(HandlerSyntaxError, match=r"node 22\.18 or later"):
        await keeper.check("acme-t", await folder_handler(folders, TYPESCRIPT, "node"))


async def test_a_module_without_a_function_and_a_folder_that_is_gone_are_told(keeper: Runner, folders: Folders) -> None:
    gone = Handler(lang="python", body="return 1", entry="main.py", tree="c" * 64)
    done = await run(keeper, gone, jobs("x"))
    assert (done.stopped[0].exitcode, b"are gone" in done.stopped[0].result) == (503, True)
    need_language("node")
    done = await run(keeper, await folder_handler(folders, {"main.mjs": "export const x = 1;"}, "node"), jobs("x"))
    assert b"exports no function" in done.stopped[0].result


async def test_contexts_are_kept_for_a_folder_and_not_shared_with_another(keeper: Runner, folders: Folders) -> None:
    handler = await folder_handler(folders, {"main.py": "import os\nreturn os.getpid()"})
    first = (await run(keeper, handler, jobs("x"))).stopped[0].result
    assert (await run(keeper, handler, jobs("x"))).stopped[0].result == first
    assert folders.asked == [("acme", "a" * 64)], "asked once, for the one context"
    await folders.add("d" * 64, {"main.py": handler.body})
    other = Handler(lang="python", body=handler.body, entry="main.py", tree="d" * 64, eid="same")
    assert other.surroundings != Handler(lang="python", body=handler.body, eid="same").surroundings
    await run(keeper, other, jobs("x"))
    assert folders.asked[-1] == ("acme", "d" * 64)

"""What is installed on the machine beside its languages is out of a handler's reach, at every level."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from functory.execution.failure_message import message_of
from handlers.model import Handler
from runner.launch import Launcher, Level
from runner.plain import PlainLauncher
from runner.runner import Runner
from runner.sandbox import installed, interpreter
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer
from tests.support.engines import jobs, need_language, run
from tests.support.needs import missing

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

FOLDERS = installed.folders(interpreter.own())
FILES = [str(path) for folder in FOLDERS for path in sorted(Path(folder).glob("*/*.*"))[:3] if path.is_file()]
HINT = b"Handlers have the standard library of their language and no packages"
LOOK = """
import importlib.util, os, sys
names = ("pip", "aiohttp", "numpy", "setuptools", "wasmtime", "functory", "runner")
found = [name for name in names if importlib.util.find_spec(name)]
seen = []
for folder in payload.split(":"):
    try:
        seen += [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        try:
            seen.append(open(folder).name)
        except OSError:
            pass
return {"found": found, "path": [one for one in sys.path if "-packages" in one], "seen": seen}
"""


def layers_of(name: str, machine: frozenset[Layer]) -> frozenset[Layer]:
    without = {"L1": {Layer.NAMESPACES, Layer.CGROUP}, "L2": {Layer.CGROUP}, "L3": set()}[name]
    return machine - without


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["L0", "L1", "L2", "L3"])
async def runner(request: pytest.FixtureRequest, machine: frozenset[Layer]) -> AsyncIterator[Runner]:
    launcher: Launcher = PlainLauncher()
    if request.param != "L0":
        launcher = SandboxLauncher(layers_of(request.param, machine), spares=0)
        if launcher.level.name != request.param:
            missing(f"the level {request.param}", "see `functory doctor`")
    made = Runner(launcher)
    await made.start()
    yield made
    await made.close()


async def test_no_package_is_found(runner: Runner) -> None:
    if not FOLDERS:
        missing("packages beside the interpreter", "apt-get install python3-pip")
    seen = await run(runner, Handler("python", LOOK), jobs(":".join([*FOLDERS, *FILES])))
    told = json.loads(seen.results[0])
    assert told["found"] == told["path"] == []
    if runner.level > Level.L0:  # at L0 nothing keeps a handler from the machine's files
        assert told["seen"] == []


@pytest.mark.parametrize(
    ("lang", "body"),
    [
        ("python", "import pip"),
        ("python", "import aiohttp\ndef handler(payload, ctx): pass"),
        ("node", "require('npm')"),
    ],
)
async def test_an_import_says_what_to_do(runner: Runner, lang: str, body: str) -> None:
    seen = await run(runner, Handler(lang, body, memory_mb=192), jobs("x"))
    assert seen.exitcodes == [500]
    assert b"ModuleNotFoundError" in seen.results[0] or b"Cannot find module" in seen.results[0]
    assert HINT in seen.results[0]
    name = body.split()[1] if lang == "python" else "npm"
    told = (
        f"ModuleNotFoundError: No module named '{name}'" if lang == "python" else f"Error: Cannot find module '{name}'"
    )
    assert message_of(seen.results[0]) == told, "the cause, and not what to do"


async def test_node_searches_nothing_of_the_machine(runner: Runner) -> None:
    need_language("node")
    body = """() => ['acorn', 'undici', 'npm', 'corepack'].filter((name) => {
      try { require.resolve(name); return true; } catch { return false; } })"""
    seen = await run(runner, Handler("node", body, memory_mb=192), jobs("x"))
    assert seen.results == [b"[]"]


async def test_node_finds_what_the_handler_wrote(runner: Runner) -> None:
    body = """() => { const fs = require('fs'); fs.mkdirSync('node_modules/mine', { recursive: true });
      fs.writeFileSync('node_modules/mine/index.js', 'module.exports = 7');
      fs.writeFileSync('near.js', 'module.exports = 1');
      return require('mine') + require('./near') + (require('node:path') ? 1 : 0); }"""
    seen = await run(runner, Handler("node", body, memory_mb=192), jobs("x"))
    assert seen.results == [b"9"]


async def test_php_searches_nothing_of_the_machine(runner: Runner) -> None:
    seen = await run(runner, Handler("php", "return get_include_path();"), jobs("x"))
    assert seen.results == [b'"."']


async def test_the_usual_names_of_python_are_there(runner: Runner) -> None:
    seen = await run(runner, Handler("python", "return [type(exit).__name__, callable(help)]"), jobs("x"))
    assert seen.results == [b'["Quitter",true]']


@pytest.mark.parametrize("lang", ["python", "sh", "wasm", "node", "php"])
async def test_every_language_comes_up(runner: Runner, lang: str) -> None:
    need_language(lang)
    assert await runner.try_language(lang) == ""

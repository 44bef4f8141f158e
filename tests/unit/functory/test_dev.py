"""The development loop: a first handler that passes its own test, results that differ, and runs on save."""

import argparse
import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from functory.cli import dev, workbench
from functory.cli.folders import run_deploy
from functory.cli.main import main
from functory.config import Settings
from functory.daemon.isolation import Isolation
from functory.errors import InvalidInput
from functory.folders.examples import Example, differences, read_examples
from functory.folders.starter import LANGUAGES, write_first_handler
from handlers.languages import LANGUAGES as ALL_LANGUAGES
from runner.launch import Level
from runner.outcome import Stopped
from runner.plain import PlainLauncher
from runner.targets import NOT_OPEN
from tests.support.engines import languages, need_language
from tests.support.npm_registry import NpmPackage, need_npm, npm_registry
from tests.support.wheels import asking_for, make_wheel, need_uv


@pytest.fixture(autouse=True)
def _no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one takes a second to prove itself; the engines' suite runs folders in it."""

    async def choose(_: Settings) -> Isolation:
        return Isolation(PlainLauncher(), Level.L0)

    monkeypatch.setattr(workbench, "choose_isolation", choose)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stopped(result: bytes, exitcode: int = 200, code: str = "ok") -> Stopped:
    return Stopped("x", code, exitcode, result, b"", 1.0, (), Level.L0)


async def test_dev_shows_what_a_run_would_leave_behind(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "examples").mkdir)
    await asyncio.to_thread((tmp_path / "examples" / "one.payload").write_text, "x")
    body = "ctx.enqueue('item', 'a', unique='u 1', domain='d')\nctx.carry({'last': 3})\n"
    await asyncio.to_thread((tmp_path / "main.py").write_text, body)
    said: list[str] = []
    arguments = argparse.Namespace(folder=tmp_path, watch=False, follow=False, type=None)
    assert await dev.run_dev(arguments, said.append) == 0, said
    (made, carried) = [line.strip() for line in said if ":" in line][-2:]
    assert made.startswith("new job: item?")
    assert {"unique=u%201", "domain=d"} == {*made.removeprefix("new job: item?").partition("|")[0].split("&")}
    assert carried == 'carries on: {"last":3}'


async def test_a_call_of_this_machine_is_allowed_by_a_variable_and_that_is_said_once(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "examples").mkdir)
    for name in ("one", "two"):
        await asyncio.to_thread((tmp_path / "examples" / f"{name}.payload").write_text, "x")
    await asyncio.to_thread((tmp_path / "main.py").write_text, f"raise OSError({NOT_OPEN!r})")
    said: list[str] = []
    assert await dev.run_test(tmp_path, said.append) == 1
    assert len([line for line in said if "FUNCTORY_HTTP_ALLOWED=127.0.0.1" in line]) == 1


async def test_several_folders_are_tested_to_the_last(tmp_path: Path) -> None:
    for name, text in (("one", "return 2"), ("two", "return 1")):
        await asyncio.to_thread((tmp_path / name / "examples").mkdir, parents=True)
        await asyncio.to_thread((tmp_path / name / "main.py").write_text, text)
        await asyncio.to_thread((tmp_path / name / "examples" / "it.payload").write_text, "x")
        await asyncio.to_thread((tmp_path / name / "examples" / "it.expected").write_text, "1")
    said: list[str] = []
    assert await dev.run_tests([tmp_path / "one", tmp_path / "two"], said.append) == 1
    assert [line for line in said if line.endswith("gave what they expect")] == [
        "0 of 1 examples gave what they expect",
        "1 of 1 examples gave what they expect",
    ]
    assert f"{tmp_path / 'two'}:" in said
    assert await dev.run_tests([tmp_path / "two"], said.append) == 0


@pytest.mark.parametrize("lang", languages(*LANGUAGES))
async def test_the_first_handler_passes_its_own_test(tmp_path: Path, lang: str) -> None:
    need_language(lang)
    names = await asyncio.to_thread(write_first_handler, tmp_path / "first", lang)
    assert "functory.toml" in names
    said: list[str] = []
    assert await dev.run_test(tmp_path / "first", said.append) == 0, said
    assert said[-1] == "2 of 2 examples gave what they expect"
    with pytest.raises(InvalidInput, match="not an empty folder"):
        await asyncio.to_thread(write_first_handler, tmp_path / "first", lang)


def test_every_language_of_folders_has_a_first_handler() -> None:
    assert set(LANGUAGES) == {name for name, language in ALL_LANGUAGES.items() if language.folder_suffixes}


def test_the_commands_that_come_next_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my greeter"
    assert main(["init", str(folder)]) == 0
    assert f"Next: functory test '{folder}'    functory dev '{folder}' --watch" in capsys.readouterr().out


async def test_a_difference_is_shown_and_is_the_exit_status(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    await asyncio.to_thread(write_first_handler, folder, "python")
    await asyncio.to_thread((folder / "greeting.py").write_text, "def greet(name):\n    return 'Bye'\n")
    said: list[str] = []
    assert await dev.run_test(folder, said.append) == 1
    text = "\n".join(said)
    assert "FAILED ada" in text
    assert '-  "message": "Hello, Ada!"' in text
    assert '+  "message": "Bye"' in text
    assert "ok     nobody" in text
    await asyncio.to_thread((folder / "main.py").write_text, "raise ValueError('boom')")
    assert await dev.run_test(folder, said.append) == 1
    assert "boom" in "\n".join(said)


@pytest.mark.parametrize(
    ("example", "run", "words"),
    [
        (Example("a", b"", b'{"a":1, "b":2}\n'), stopped(b'{"b":2,"a":1}'), []),
        (Example("a", b"", b"text\n"), stopped(b"text"), []),
        (Example("a", b"", b"text"), stopped(b"other"), ["-text", "+other"]),
        (Example("a", b"", b"1"), stopped(b"1", 422, "failed"), ["expected 2xx"]),
        (Example("a", b"", None, 422), stopped(b"x", 422, "failed"), []),
        (Example("a", b"", None, 200), stopped(b"x", 201), ["exit code 201, expected 200"]),
        (Example("a", b""), stopped(b"why", 500, "error"), ["exit code 500", "why"]),
    ],
)
def test_what_counts_as_a_difference(example: Example, run: Stopped, words: list[str]) -> None:
    lines = differences(example, run)
    assert bool(lines) == bool(words)
    for word in words:
        assert any(word in line for line in lines)


def test_examples_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    examples = tmp_path / "examples"
    examples.mkdir()
    assert read_examples(tmp_path) == []
    (examples / "a.expected").write_text("x")
    with pytest.raises(InvalidInput, match=r"no a\.payload"):
        read_examples(tmp_path)
    (examples / "a.payload").write_text("p\n")
    assert read_examples(tmp_path) == [Example("a", b"p", b"x", None)]
    (examples / "a.exitcode").write_text("many")
    with pytest.raises(InvalidInput, match="exit code"):
        read_examples(tmp_path)


async def test_dev_runs_again_on_save_goes_on_after_mistakes_and_deploys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "first"
    await asyncio.to_thread(write_first_handler, folder, "python")
    deployed: list[str] = []

    class Client:
        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def put_folder(self, job_type: str, packed: bytes) -> argparse.Namespace:
            deployed.append(job_type)
            return argparse.Namespace(type=job_type, version=len(deployed), size=len(packed))

    monkeypatch.setattr(dev, "open_client", lambda _: Client())
    said: asyncio.Queue[str] = asyncio.Queue()
    arguments = argparse.Namespace(folder=folder, watch=True, follow=True, type=None)
    loop = asyncio.create_task(dev.run_dev(arguments, said.put_nowait))

    async def heard(word: str) -> None:
        async with asyncio.timeout(30):
            while word not in await said.get():
                continue

    await heard("Hello, Ada!")
    await heard("deployed: first, version 1")
    for text, word in (("def greet(name):\n    return 'Bye'\n", "not as expected"), ("def greet(:\n", "SyntaxError")):
        await asyncio.to_thread((folder / "greeting.py").write_text, text)
        await heard(word)
    await asyncio.to_thread((folder / "main.py").write_text, "def handler(:")
    await heard("line 1")
    await asyncio.to_thread((folder / "main.py").write_text, "return 'well again'")
    await heard("well again")
    await heard("version 4")
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    assert len(deployed) == 4, "not the one that does not load"


async def write_folder(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_text, text)


@pytest.mark.parametrize("place", ["requirements.txt", "pyproject.toml", "main.py"])
async def test_packages_are_installed_once_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    await asyncio.to_thread(need_uv)
    wheels = tmp_path / "wheels"
    await asyncio.to_thread(wheels.mkdir)
    await asyncio.to_thread(make_wheel, wheels, "alpha", "1.5")
    monkeypatch.setenv("FUNCTORY_PACKAGES_INDEX", "none")
    monkeypatch.setenv("FUNCTORY_PACKAGES_WHEELS", str(wheels))
    asks = {
        "requirements.txt": "# what it needs\nalpha>=1  # the first\n",
        "pyproject.toml": '[project]\nname = "x"\ndependencies = ["alpha>=1"]\n',
        "main.py": asking_for("alpha>=1", code=""),
    }
    files = {
        "main.py": "import alpha\nreturn alpha.VERSION",
        "examples/a.payload": "x",
        "examples/a.expected": '"1.5"',
    }
    files[place] = asks[place] + files.get(place, "")
    await write_folder(tmp_path / "made", files)
    said: list[str] = []
    assert await dev.run_test(tmp_path / "made", said.append) == 0, said
    assert said[:2] == ["packages: looking for alpha>=1", "packages: installing alpha 1.5"]
    await asyncio.to_thread(shutil.rmtree, wheels)
    said.clear()
    assert await dev.run_test(tmp_path / "made", said.append) == 0, "offline, too"
    assert not any(line.startswith("packages") for line in said)


@pytest.mark.slow
async def test_packages_of_node_are_installed_once_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(need_npm)
    await asyncio.to_thread(need_language, "node")
    files = {
        "main.mjs": "import alpha from 'alpha';\nexport default () => alpha.VERSION;",
        "package.json": '{"dependencies": {"alpha": "1"}}',
        "examples/a.payload": "x",
        "examples/a.expected": '"1.0.0"',
    }
    await write_folder(tmp_path / "made", files)
    said: list[str] = []
    async with npm_registry(NpmPackage("alpha", fields={"scripts": {"install": "exit 1"}})) as registry:
        monkeypatch.setenv("FUNCTORY_PACKAGES_REGISTRY", registry.url)
        assert await dev.run_test(tmp_path / "made", said.append) == 0, said
    assert said[:2] == ["packages: looking for alpha@1", "packages: installing alpha 1.0.0"]
    assert said[2] == "packages: the install scripts of alpha were not run, as is the rule here"
    said.clear()
    assert await dev.run_test(tmp_path / "made", said.append) == 0, "offline, too"
    assert not any(line.startswith("packages") for line in said)


async def test_secrets_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "s3same")
    files = {
        "functory.toml": 'secrets = ["API_KEY"]',
        "main.py": "return len(ctx.secrets['API_KEY'])",
        "examples/a.payload": "x",
        "examples/a.expected": json.dumps(6),
    }
    await write_folder(tmp_path / "keyed", files)
    assert await dev.run_test(tmp_path / "keyed", lambda _: None) == 0
    monkeypatch.delenv("API_KEY")
    said: list[str] = []
    assert await dev.run_test(tmp_path / "keyed", said.append) == 1
    assert "API_KEY is not set" in "\n".join(said)


@pytest.mark.parametrize(
    ("upgrade", "count", "told"),
    [
        (False, 1, "p0 1.0.0"),
        (True, 1, "p0 1.0.0"),
        (False, 8, ", ".join(f"p{number} 1.0.0" for number in range(8))),
        (False, 9, "9 packages (functory handler get made)"),
    ],
)
async def test_deploy_says_which_packages_a_version_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, upgrade: bool, count: int, told: str
) -> None:
    asked: list[tuple[str, bool]] = []

    class Service:
        async def put_folder(
            self, job_type: str, packed: bytes, *, upgrade: bool, tell: Callable[[str], None]
        ) -> argparse.Namespace:
            assert packed
            tell("installing")
            asked.append((job_type, upgrade))
            lock = {"packages": [{"name": f"p{number}", "version": "1.0.0"} for number in range(count)]}
            note = argparse.Namespace(text="the install scripts of alpha were not run")
            return argparse.Namespace(type=job_type, version=3, handler={"lock": lock}, packages=note)

    await write_folder(tmp_path / "made", {"main.py": "return 1"})
    arguments = argparse.Namespace(folders=[tmp_path / "made"], type=None, settings=None, upgrade=upgrade, json=False)
    assert await run_deploy(Service(), arguments) == 0  # type: ignore[arg-type]
    assert asked == [("made", upgrade)]
    said = f"made: version 3 is active with {told}; the install scripts of alpha were not run\n"
    assert capsys.readouterr() == (said, ""), "steps are for terminals"

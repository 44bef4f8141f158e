"""A command imports what it needs: the table of commands is true, help lists all, and small commands stay small."""

import argparse
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from functory.cli.main import GROUPS, groups_for, main, make_parser
from tests.support.command_line import clean_environ

HEAVY = ("aiohttp", "apsw", "motor", "wasmtime", "functory.daemon.daemon", "functory.web", "runner.runner")


def commands_of(parser: argparse.ArgumentParser) -> dict[str, str | None]:
    """The commands with what each is said to do."""
    (found,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {choice.dest: choice.help for choice in found._choices_actions}


@pytest.mark.parametrize("group", GROUPS)
def test_the_table_names_the_commands_of_each_module(group: str) -> None:
    """And says of each what its own module says: help shows these texts without importing it."""
    parser = argparse.ArgumentParser()
    import_module(f"functory.cli.{group}").add_commands(parser.add_subparsers())
    assert commands_of(parser) == GROUPS[group]
    assert list(commands_of(make_parser([group]))) == [name for names in GROUPS.values() for name in names]


def test_every_module_with_commands_is_in_the_table() -> None:
    folder = Path(import_module("functory.cli").__path__[0])
    names = {path.stem for path in folder.glob("*.py") if "def add_commands(" in path.read_text()}
    assert names == GROUPS.keys()


@pytest.mark.parametrize(
    ("argv", "groups"),
    [
        (["job", "get", "x"], ["jobs"]),
        (["results"], ["jobs"]),
        (["--version"], []),
        (["--help"], []),
        (["jbo"], list(GROUPS)),
        ([], []),
    ],
)
def test_only_what_was_asked_for_is_imported(argv: list[str], groups: list[str]) -> None:
    assert list(groups_for(argv)) == groups


def test_help_lists_every_command_and_a_wrong_one_leads_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert {command for commands in GROUPS.values() for command in commands} <= set(shown.split())
    with pytest.raises(SystemExit) as ended:
        main(["jbo"])
    assert ended.value.code == 2
    assert "`functory --help` lists all commands" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["--help", "job --help", "tenant --help", "job add --help", "rate list --help"])
def test_help_is_quick(tmp_path: Path, command: str) -> None:
    """Measured in modules: their import is nearly all of its time, and a count does not depend on the machine."""
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom functory.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print('IMPORTED', len(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        capture_output=True, text=True, check=True, env=clean_environ(), cwd=tmp_path,
    )  # fmt: skip
    assert int(done.stdout.rsplit(" ", 1)[1]) < 100


@pytest.mark.parametrize("command", ["--help", "--version", "config", "journal verify {folder}"])
def test_a_small_command_loads_nothing_heavy(tmp_path: Path, command: str) -> None:
    code = (
        "import sys\nfrom functory.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.format(folder=tmp_path).split()],
        capture_output=True, text=True, check=True, env=clean_environ(), cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.endswith("LOADED []\n"), done.stdout


def test_a_defect_is_not_dressed_up_as_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: argparse.Namespace) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("functory.cli.settings.run_config", broken)
    with pytest.raises(ZeroDivisionError):
        main(["config"])

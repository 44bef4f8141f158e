"""Options stand anywhere among the words of a command; unknown ones and unknown values are refused; `--` ends them."""

import argparse
import shlex
from pathlib import Path

import pytest

from functory.cli.command_parser import CommandParser
from functory.cli.main import make_parser

PARSER = make_parser()


def with_open_words(parser: argparse.ArgumentParser, name: str = "functory") -> dict[str, argparse.ArgumentParser]:
    """The commands that take a number of words that is not fixed."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                found |= with_open_words(inner, f"{name} {word}")
        elif not action.option_strings and action.nargs in {"*", "+", "?"}:
            found[name] = parser
    return found


def groups_of(parser: argparse.ArgumentParser) -> dict[str, dict[str, argparse.ArgumentParser]]:
    """The commands that have commands, with those."""
    (commands,) = [it for it in parser._actions if isinstance(it, argparse._SubParsersAction)]
    found = {
        name: [it for it in each._actions if isinstance(it, argparse._SubParsersAction)]
        for name, each in commands.choices.items()
    }
    return {name: dict(inner[0].choices) for name, inner in found.items() if inner}


CASES = [
    ("job add echo --priority 1000 x", {"type": "echo", "payload": ["x"], "priority": "1000"}),
    ("job add echo x --priority 1000 y", {"type": "echo", "payload": ["x", "y"], "priority": "1000"}),
    ("job add --priority 1000 echo x --json", {"payload": ["x"], "priority": "1000", "json": True}),
    ("job add echo -5 --priority 0 -6", {"payload": ["-5", "-6"], "priority": "0"}),
    ("job add echo --priority 0 -- --json -x", {"payload": ["--json", "-x"], "json": False}),
    ("job add echo x -- -- y", {"payload": ["x", "--", "y"]}),
    ("job add echo --json", {"payload": []}),
    ("job create --json jobs.json", {"file": "jobs.json"}),
    ("job create --json", {"file": "-"}),
    ("job wait a --timeout-s 5 b", {"ids": ["a", "b"], "timeout_s": 5.0}),
    ("work take g1 --limit 1 g2", {"types": ["g1", "g2"], "limit": 1}),
    ("work renew a:1 --lease-s 3 b:2", {"leases": [("a", 1), ("b", 2)]}),
    ("work report a:1 --result x ok", {"leases": ("a", 1), "outcome": "ok"}),
    ("work return a:1 --json b:2", {"leases": [("a", 1), ("b", 2)]}),
    ("handler put resize --lang worker", {"type": "resize", "file": None}),
    ("handler put thumb --keep none thumb.py", {"type": "thumb", "file": "thumb.py"}),
    ("deploy a --json b", {"folders": [Path("a"), Path("b")], "json": True}),
    ("test a b", {"folders": [Path("a"), Path("b")]}),
    ("handler rollback thumb --json 3", {"type": "thumb", "version": 3, "json": True}),
    ("daemon pause --json 7", {"sysid": "7"}),
    ("daemon resume 7 --json", {"sysid": "7"}),
    ("job update id --json -- -x", {"id": "id", "payload": "-x"}),
    ("cancel --failure aa11 --yes", {"type": None, "failure": "aa11", "yes": True}),
    ("delete --code ok mail --yes", {"type": "mail", "code": ["ok"], "yes": True}),
]


@pytest.mark.parametrize(("line", "expected"), CASES)
def test_options_stand_anywhere(line: str, expected: dict[str, object]) -> None:
    found = vars(PARSER.parse_args(shlex.split(line)))
    assert {name: found[name] for name in expected} == expected


def test_rm_and_delete_are_one_word() -> None:
    """Whoever knows one of them from another command may use it with any."""
    groups = {name: inner for name, inner in groups_of(PARSER).items() if {"rm", "delete"} & inner.keys()}
    assert groups.keys() == {"tenant", "handler", "job", "rate", "secret", "alert", "webhook", "consumer"}
    for name, inner in groups.items():
        assert inner.get("rm") is inner.get("delete"), name


def test_every_command_with_open_words_is_among_them() -> None:
    names = {name.removeprefix("functory ") for name in with_open_words(PARSER)}
    assert names == {name for name in names if any(line.startswith(name) for line, _ in CASES)}
    assert "job add" in names


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("job add echo --bogus x", "functory job add: error: unknown option: --bogus\n"),
        ("job add echo x --bogus=1", "unknown option: --bogus=1\n"),
        ("work take --limt 1 g1", "unknown option: --limt; did you mean --limit?\n"),
        ("delete thumb --al", "unknown option: --al; did you mean --all?\n"),
        ("serve --http 127.0.0.1:80", "unknown option: --http; did you mean --http-allowed?\n"),
        ("job get one two", "functory job get: error: unrecognized arguments: two\n"),
        ("job get one -- --two", "unrecognized arguments: --two\n"),
        ("job add echo --priority 3 x", "argument --priority: invalid choice"),
        ("work take --limit 1", "the following arguments are required: TYPE"),
        ("worker tasks:worker --concurrency 0", "argument --concurrency: '0' is not a whole number from 1 on"),
        ("worker tasks:worker --concurrency=-1", "argument --concurrency: '-1' is not a whole number from 1 on"),
        ("worker tasks:worker --concurrency many", "'many' is not a whole number from 1 on"),
    ],
)
def test_what_is_wrong_is_said_with_the_usage_of_the_command(
    capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        PARSER.parse_args(shlex.split(line))
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert says in shown
    assert shown.startswith(f"usage: functory {line.split(maxsplit=1)[0]}")


def test_help_names_the_words_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        PARSER.parse_args(["work", "take", "g1", "--help"])
    assert "TYPE [TYPE ...]" in capsys.readouterr().out


def test_one_of_a_group_of_options_may_stand_anywhere_and_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    parser = CommandParser(prog="x")
    parser.add_argument("name")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--one")
    group.add_argument("--two")
    for words in (["n", "--one", "1"], ["--one", "1", "n"]):
        assert parser.parse_args(words) == argparse.Namespace(name="n", one="1", two=None)
    for words in (["n"], ["n", "--one", "1", "--two", "2"]):
        with pytest.raises(SystemExit):
            parser.parse_args(words)
    assert "one of the arguments --one --two is required" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["job", "list"], ["cancel", "thumb"]])
def test_a_state_that_there_is_not_is_told_those_that_there_are(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with pytest.raises(SystemExit):
        PARSER.parse_args([*words, "--state", "asleep"])
    told = capsys.readouterr().err
    assert "'asleep' is none of " in told
    assert ", held" in told
    assert "paused" in told

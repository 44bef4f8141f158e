"""docs/cli.md, made from the parser. `python -m tests.support.cli_reference > docs/cli.md` writes it."""

import argparse
import os
from collections.abc import Iterator

from functory.cli.main import GROUPS, make_parser

_INTRO = """# Command line

Made from the parser by `python -m tests.support.cli_reference`; a test keeps it current. `functory COMMAND --help`
shows the same.

Commands that talk to a server take `--url` (or `FUNCTORY_URL`, default `http://127.0.0.1:8484`), `--key` or
`--key-file` (or `FUNCTORY_KEY`), those of a tenant also `--tenant` (or `FUNCTORY_TENANT`), and `--json`. They are left
out below. Where a command has `rm`, it takes `delete` for it, and where it has `delete`, also `rm`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | done, and the result is bad: a job failed, damage was found, isolation is too low |
| 2 | the command line or the input is wrong |
| 3 | not allowed |
| 4 | not found |
| 5 | not possible in the current state |
| 6 | over a limit |
| 7 | not available now |
| 8 | a file does not exist or cannot be read |
| 9 | the time to wait is up, and a job goes on |
"""
_SHARED = frozenset({"url", "key", "key_file", "tenant", "json", "help"})
_SETTINGS = "setting_"


def reference() -> str:
    for name in ("FUNCTORY_URL", "FUNCTORY_KEY", "FUNCTORY_TENANT"):
        os.environ.pop(name, None)
    parser = make_parser()
    order = [command for commands in GROUPS.values() for command in commands]
    choices = _commands(parser)
    texts = [_INTRO]
    for command in order:
        texts += _describe(choices[command], f"functory {command}", _help_of(parser, command), 2)
    return "\n".join(texts)


def _describe(parser: argparse.ArgumentParser, name: str, text: str, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n\n{_sentence(text)}\n"
    inner = _commands(parser)
    rows = [_row(action) for action in parser._actions if _is_shown(action)]
    if any(action.dest.startswith(_SETTINGS) for action in parser._actions):
        rows.append("| `--SETTING VALUE` | any setting of `functory config` |")
    if rows:
        yield "\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n"
    for command, sub in inner.items():
        yield from _describe(sub, f"{name} {command}", _help_of(parser, command), level + 1)


def _is_shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._SubParsersAction) or action.dest.startswith(_SETTINGS)
    return not hidden and action.dest not in _SHARED


def _row(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    shown = "\\|".join(map(str, action.choices)) if action.choices and not action.metavar else str(value)
    if action.option_strings:
        name = ", ".join(action.option_strings) + (f" {shown}" if action.nargs != 0 else "")
    else:
        name = f"{shown}{' ...' if action.nargs in {'*', '+'} else ''}"
    text = (action.help or ("" if action.option_strings else "required")).replace("|", "\\|")
    return f"| `{name}` | {text} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Without aliases, which are not documented."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    names = [choice.dest for action in found for choice in action._choices_actions]
    return {name: found[0].choices[name] for name in names}


def _help_of(parser: argparse.ArgumentParser, command: str) -> str:
    (found,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return next((choice.help or "" for choice in found._choices_actions if choice.dest == command), "")


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201 (that is what it is for)

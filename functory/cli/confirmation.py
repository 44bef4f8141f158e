"""Questions before something that cannot be undone.

Ensures: without `--yes` nothing happens that nobody was asked about. Where standard input is no terminal, nobody can be
asked: the command is refused then, so a script has to say `--yes`.
"""

import argparse
import sys
from typing import Final

from functory.errors import InvalidInput

_YES: Final = frozenset({"y", "Y", "yes", "Yes", "YES"})


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where standard input is no terminal")


async def confirm_name(arguments: argparse.Namespace, what: str, name: str) -> None:
    """Something is lost for good: its name has to be typed. Raises InvalidInput when the answer is another."""
    if not arguments.yes:
        require_terminal(what)
        await _expect(f"{what}\nType {name} to confirm: ", frozenset({name}))


async def confirm(arguments: argparse.Namespace, question: str) -> None:
    """Raises InvalidInput when the answer is not yes."""
    if not arguments.yes:
        require_terminal()
        await _expect(f"{question} [y/N] ", _YES)


def require_terminal(what: str = "") -> None:
    """Raises InvalidInput where nobody can be asked. what: what would be done."""
    if sys.stdin is None or not sys.stdin.isatty():
        reason = "Standard input is no terminal, so nobody can be asked: use --yes. Nothing was changed."
        raise InvalidInput(f"{what} {reason}".strip())


async def _expect(prompt: str, answers: frozenset[str]) -> None:
    from functory.cli.standard_input import read_line  # noqa: PLC0415 (not for the parser)

    if (await read_line(prompt)).decode("utf-8", "replace").strip() not in answers:
        raise InvalidInput("Not confirmed; nothing was changed.")

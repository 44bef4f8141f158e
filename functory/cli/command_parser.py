"""The parser of commands: options may stand anywhere, as in `job add TYPE --priority 1000 PAYLOAD`, and who mistypes a
command or an option is told what is near.

argparse takes the words up to the first option for all that there are, so a command with a `*`, `+` or `?` would refuse
what comes after an option. Its own way out (`parse_intermixed_args`) neither works with subcommands nor, on all
versions of Python, with `--`.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final

_NO_COMMAND: Final = 2
"""The exit code, as of any command line that is wrong."""
_MOST_NEAR: Final = 3
_LONGEST_WORD: Final = 40
"""That is compared with others: who mistypes a command does not write a page."""


class CommandParser(argparse.ArgumentParser):
    """Ensures: a word before `--` that reads like an option is one, or is refused; each word after it is none. An
    option has its whole name: what is the beginning of one today may be that of two tomorrow."""

    _takes_words = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["allow_abbrev"] = False
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        """First the options, then what is left. A command of a command ends here, with its own usage, if there are
        words that it does not know; one that has commands and is given none, with the list of them."""
        if self._subparsers is not None and args is not None and not args:
            self.print_help(sys.stderr)
            self.exit(_NO_COMMAND)
        if args and not args[0].startswith("-"):
            self._check_command(args[0])
        if self._subparsers is not None or args is None:
            return super().parse_known_args(args, namespace)
        end = list(args).index("--") if "--" in args else len(args)
        with self._only_options():
            namespace, others = super().parse_known_args(args[:end], namespace)
        options_and_groups: list[Any] = [*self._get_optional_actions(), *self._mutually_exclusive_groups]
        required = [each for each in options_and_groups if each.required]
        with _not_required(required):  # the first pass has seen them
            namespace, unknown = super().parse_known_args([*others, *args[end:]], namespace)
        if unknown:
            options = [word for word in unknown if word.startswith("-") and word in args[:end]]
            self.error(self._unknown_option(options[0]) if options else f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, []

    def commands(self) -> Mapping[str, argparse.ArgumentParser]:
        """By name; none if it has none."""
        groups = [action.choices for action in self._actions if isinstance(action.choices, Mapping)]
        return {name: parser for group in groups for name, parser in group.items()}

    def _check_command(self, word: str) -> None:
        """Ends with what may have been meant: a command of almost this name, or that of another command."""
        known = self.commands()
        if not known or word in known:
            return
        near = [f"{self.prog} --{word}"] if f"--{word}" in self._option_string_actions else []
        near += [f"{self.prog} {name}" for name in _near(word, known)]
        for name, parser in known.items():
            if isinstance(parser, CommandParser) and word in parser.commands():
                near.append(f"{self.prog} {name} {word}")
        meant = f" Did you mean {' or '.join(f'`{it}`' for it in near[:_MOST_NEAR])}?" if near else ""
        self.error(f"there is no command {word!r:.{_LONGEST_WORD}}.{meant} `{self.prog} --help` lists all commands.")

    def _unknown_option(self, word: str) -> str:
        name = word.partition("=")[0]
        known = self._option_string_actions if name.startswith("--") else ()
        near = [each for each in known if each.startswith(name)][:_MOST_NEAR] or _near(name, known)
        return f"unknown option: {word}" + (f"; did you mean {' or '.join(near)}?" if near else "")

    def _get_positional_actions(self) -> list[argparse.Action]:
        return super()._get_positional_actions() if self._takes_words else []

    @contextmanager
    def _only_options(self) -> Iterator[None]:
        with _not_required(self._get_positional_actions()):
            self._takes_words = False
            try:
                yield
            finally:
                self._takes_words = True


def _near(word: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(word, known, n=_MOST_NEAR, cutoff=0.7) if len(word) <= _LONGEST_WORD else []


@contextmanager
def _not_required(actions: Sequence[Any]) -> Iterator[None]:
    """Of options, words, and groups of options of which one must be given."""
    was = [action.required for action in actions]
    for action in actions:
        action.required = False
    try:
        yield
    finally:
        for action, required in zip(actions, was, strict=True):
            action.required = required

"""What a context of a handler is started with: the program of its language, and its packages.

The modules of packages that a handler imports are named to the program, which imports them before its context is
wanted: a blank context of such a kind belongs to one tenant, because its tree does. Not with secrets: a module that
reads one when it is imported must find it.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Final, NamedTuple

from handlers.languages import Language
from handlers.model import Handler
from runner.errors import LaunchError
from runner.packages.trees import Tree

_IMPORT: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w{0,99})", re.MULTILINE)
_SEARCHED: Final = 1 << 16
_MOST_IMPORTED: Final = 16


class Program(NamedTuple):
    """What a language needs of this machine."""

    argv: tuple[str | Path, ...]
    preload: tuple[Path, ...]


class Programs:
    """Each looked up once: that costs more than starting a context."""

    def __init__(self) -> None:
        self._known: dict[str, Program] = {}

    async def get(self, language: Language) -> Program:
        """Raises LaunchError when something is not installed."""
        program = self._known.get(language.name)
        if program is None:
            program = self._known[language.name] = await asyncio.to_thread(_look_up, language)
        return program


def with_packages(program: Program, handler: Handler, tree: Tree) -> tuple[str | Path, ...]:
    """What to run so that it finds the packages of its handler. Python gets the tree, env, and modules to import."""
    if handler.lang == "node":
        # Where there is no root of its own, the bootstrap links handler and packages side by side, and node is not to
        # look where the links lead. There are no links otherwise: neither a folder nor a tree may have any.
        return (program.argv[0], "--preserve-symlinks", *program.argv[1:], tree.site)
    text = f"{handler.before[:_SEARCHED]}\n{handler.body[:_SEARCHED]}"
    modules = {} if handler.secrets else dict.fromkeys(name for name in _IMPORT.findall(text) if name in tree.modules)
    return (*program.argv, tree.site, json.dumps(dict(handler.env)), *list(modules)[:_MOST_IMPORTED])


def _look_up(language: Language) -> Program:
    try:
        return Program(language.argv(), language.preload())
    except FileNotFoundError as err:
        raise LaunchError(f"{err} is not installed on this machine, {language.name} needs it") from err

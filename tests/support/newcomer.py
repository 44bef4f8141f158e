"""A page of the documentation, done as a newcomer does it: every file saved, every command run, in order."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.command_line import clean_environ

_STEP: Final = re.compile(
    r"(?:[Ss]ave this as\s`(?P<name>[^`]+)`[^\n]*:\n\n```\w*\n(?P<text>.*?)```)|(?:```sh\n(?P<sh>.*?)```)", re.DOTALL
)
_PORT: Final = "9000"
"""The port that pages name for the newcomer's own servers."""


class Step(NamedTuple):
    """A file to save, or commands to run."""

    name: str
    text: str


def steps(page: str, port: int) -> Iterator[Step]:
    """Those of the text of a page. Its servers get the port."""
    for found in _STEP.finditer(page.replace(_PORT, str(port))):
        yield Step(found["name"] or "", found["text"] or found["sh"])


class Newcomer:
    """A shell in a folder: what it exports holds for the commands after it."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._folder = folder
        self._environ = clean_environ() | environ

    async def do(self, step: Step) -> str:
        """What the commands printed."""
        if step.name:
            await asyncio.to_thread((self._folder / step.name).write_text, step.text)
            return ""
        if step.text.startswith("export "):
            name, _, value = step.text.removeprefix("export ").strip().partition("=")
            self._environ[name] = value
            return ""
        shell = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", step.text, cwd=self._folder, env=self._environ,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await shell.communicate()
        assert shell.returncode == 0, f"{step.text}\n{out.decode()}"
        return out.decode()


@asynccontextmanager
async def running(program: Path) -> AsyncIterator[asyncio.StreamReader]:
    """A program of the page, in a terminal of its own, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()

"""The reference of the command line is what the parser says, and the commands of the other pages can be typed."""

import re
import shlex
from pathlib import Path

import pytest

from functory.cli.main import make_parser
from tests.support.cli_reference import reference

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "cli.md"
PARSER = make_parser()


def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FUNCTORY_URL", "FUNCTORY_KEY", "FUNCTORY_TENANT"):
        monkeypatch.delenv(name, raising=False)
    assert PAGE.read_text() == reference(), "run: python -m tests.support.cli_reference > docs/cli.md"


def commands() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = []
    for page in pages:
        for block in re.findall(r"^```(?:sh)?\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            text = block.replace("\\\n", " ")
            found += [(page.name, line) for line in re.findall(r"^functory [a-z].*$", text, re.MULTILINE)]
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_of_a_page_is_one(page: str, line: str) -> None:
    words = shlex.split(re.split(r" [|<>;] | #", re.sub(r"\$\([^)]*\)", "X", line))[0])
    PARSER.parse_args(words[1:])


def test_the_pages_have_commands() -> None:
    assert len(commands()) > 20

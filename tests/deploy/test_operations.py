"""docs/operations.md and docs/scaling.md: commands that exist, files that are there, links that lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

from functory.cli.main import make_parser
from functory.config import setting_fields
from tests.support.deploy_files import ROOT

PAGES = [ROOT / "docs" / "operations.md", ROOT / "docs" / "scaling.md"]
NOT_HERE_YET = {"backup.md"}
"""Pages that are written together with what they describe."""


def shell_lines(page: Path) -> list[str]:
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line.strip() for language, text in blocks if language in ("", "sh") for line in text.splitlines()]


def test_every_command_can_be_given() -> None:
    lines = [line for page in PAGES for line in shell_lines(page) if line.startswith("functory ")]
    commands = [shlex.split(line, comments=True) for line in lines]
    assert len(commands) > 8
    for command in commands:
        make_parser().parse_args(command[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_links_are_there(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(r"\bdeploy/[\w./-]+[\w]", text):
        assert (ROOT / path).exists(), path
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines()}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        name, _, anchor = target.partition("#")
        if name in NOT_HERE_YET and not (page.parent / name).exists():
            continue
        assert not name or (page.parent / name).exists(), target
        if anchor and not name:
            assert anchor in headings, target


def test_settings_that_are_named_exist() -> None:
    text = PAGES[0].read_text()
    for name in ("journal_backlog", "journal_min_free", "keep_done", "max_contexts", "status_port", "trusted_proxies"):
        assert f"`{name}`" in text or f"{name} =" in text
        assert name in setting_fields()


def test_what_is_computed_follows_from_what_was_measured() -> None:
    """The table of expected numbers is arithmetic: it must change with the measured costs above it."""
    text = PAGES[1].read_text()
    (daemon_us, store_us) = re.findall(r"FerretDB [^|]*\| (\d+) µs \| \d+ µs \| ([\d,]+) µs", text)[0]
    rows = re.findall(r"^\| (nothing|\d+ ms) \|(.*)\|$", text, re.MULTILINE)
    assert len(rows) == 4
    for handler, cells in rows:
        handler_s = 0.0 if handler == "nothing" else int(handler.split()[0]) / 1000
        one_per_s = min(1e6 / int(daemon_us), 2 / handler_s if handler_s else float("inf"))
        numbers = [float(re.sub(r"[^\d.]", "", cell)) for cell in cells.split("|")]
        for count, (jobs_per_s, cores) in zip((1, 10, 100), zip(numbers[::2], numbers[1::2], strict=True), strict=True):
            assert jobs_per_s == pytest.approx(count * one_per_s, rel=0.05)
            assert cores == pytest.approx(count * one_per_s * int(store_us.replace(",", "")) / 1e6, rel=0.08)

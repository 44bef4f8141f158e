"""The table of jobs in a terminal: how much of a payload it shows."""

import argparse
import os
import shutil
import sys

import pytest

from functory.cli.job_views import MOST_CHARS, show_page
from functory.wire.base import Encoding
from functory.wire.jobs import Job, Page


def job(payload: str, *, size_bytes: int | None = None, encoding: Encoding = "text") -> Job:
    shown = Job("id-1", "thumb", "archived", 500, attempts=1, due_ms=0, created_ms=0, payload=payload)
    shown.payload_encoding = encoding
    shown.payload_bytes = len(payload) if size_bytes is None else size_bytes
    return shown


def printed(capsys: pytest.CaptureFixture[str], *jobs: Job) -> list[str]:
    show_page(argparse.Namespace(json=False), Page([*jobs], None), "No jobs.")
    return capsys.readouterr().out.splitlines()[2:]


@pytest.mark.parametrize("columns", [90, 120, 500])
def test_it_is_as_wide_as_the_terminal_allows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    (line,) = printed(capsys, job("x" * 300))
    assert line.endswith("x…")
    assert len(line) == columns or (line.count("x") == MOST_CHARS - 1 and len(line) < columns)


def test_a_narrow_terminal_and_a_file_have_some_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = printed(capsys, job("x" * 300))
    assert line.count("x") == 59
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 24)))
    (line,) = printed(capsys, job("x" * 300))
    assert line.count("x") == 19


def test_it_is_one_line_that_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    orders, cut, raw = printed(
        capsys, job("a\nb\x1b[2J"), job("ab", size_bytes=3), job("/wA=", size_bytes=2, encoding="base64")
    )
    assert orders.endswith("a b\\x1b[2J")
    assert cut.endswith("  ab…")
    assert raw.endswith("\\xff\\x00")

"""The table of jobs in a terminal: how much of a payload it shows."""

import argparse
import os
import shutil
import sys

import pytest

from functory.cli.answers import moment
from functory.cli.job_views import MOST_CHARS, show_change, show_job, show_page
from functory.wire.base import Encoding
from functory.wire.jobs import AttemptRow, Job, Page


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


def test_a_job_that_runs_says_since_when(capsys: pytest.CaptureFixture[str]) -> None:
    running = Job("id-1", "thumb", "running", 500, attempts=1, due_ms=1000, created_ms=1000, claimed_ms=61_000)
    show_job(running, as_json=False)
    assert f"running      since {moment(61_000)}" in capsys.readouterr().out.splitlines()


def test_a_job_that_never_ran_took_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    cancelled = job("x")
    cancelled.started_ms, cancelled.duration_us = 0, 0
    show_job(cancelled, as_json=False)
    assert "took" not in capsys.readouterr().out
    (line,) = printed(capsys, cancelled)
    assert line.split()[-3:] == ["-", "-", "x"], "no milliseconds, no end, no message"


def test_after_a_change_a_job_is_shown_without_what_it_has_said_before(capsys: pytest.CaptureFixture[str]) -> None:
    cancelled = job("the payload")
    cancelled.result, cancelled.log = "a result", "a log"
    cancelled.history = [AttemptRow(1, 1000, 1000, "error", 500, "an error", 1, "1")]
    show_change(cancelled, as_json=False)
    shown = capsys.readouterr().out
    assert "the payload" in shown
    assert not {word for word in ("a result", "a log", "an error") if word in shown}
    show_job(cancelled, as_json=False)
    shown = capsys.readouterr().out
    assert {word for word in ("a result", "a log", "an error", "earlier attempts:") if word not in shown} == set()


def test_a_job_without_a_result_shows_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    """It had waited for too long, say, and was not run."""
    late = job("x")
    late.code, late.exitcode, late.message = "abandoned", 504, "it was not run\x1b"
    show_job(late, as_json=False)
    assert capsys.readouterr().out.endswith("payload:\n  x\nmessage:\n  it was not run\\x1b\n")
    late.result, late.message = "Traceback", "Traceback"
    show_job(late, as_json=False)
    assert "message" not in capsys.readouterr().out

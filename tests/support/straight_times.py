"""The times after which a job leaves the straight way, set by a test: however slow the machine is at the moment."""

from typing import Final

import pytest

from functory.execution.straight import reader_pause, showing, waiting_jobs

LONG_S: Final = 3600.0


def set_straight_times(
    monkeypatch: pytest.MonkeyPatch, *, show_after_s: float = LONG_S, return_after_s: float = LONG_S
) -> None:
    """By default none is shown as running for taking long, and none takes the long way for waiting long."""
    monkeypatch.setattr(showing, "_SHOW_AFTER_S", show_after_s)
    monkeypatch.setattr(showing, "_SHOW_MANY_AFTER_S", show_after_s)
    monkeypatch.setattr(waiting_jobs, "RETURN_AFTER_S", return_after_s)
    monkeypatch.setattr(waiting_jobs, "_RETURN_MANY_AFTER_S", return_after_s)
    monkeypatch.setattr(waiting_jobs, "_LONGEST_S", LONG_S)
    monkeypatch.setattr(reader_pause, "_PROGRESS_WITHIN_S", return_after_s)

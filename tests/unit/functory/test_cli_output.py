"""What a command prints never fails, wherever its output goes; and what the demo prints at its end is true."""

import io
import sys
from pathlib import Path

import pytest

from functory.cli import main
from functory.cli.demo import NEXT


def test_what_a_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert main(["config", "--store", "sqlite:///tmp/é.db"]) == 0
    assert b"\\xe9.db" in shown.getvalue()


def test_a_closed_output_is_nobodys_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["config"]) == 0
    sys.stdout.close()


def test_passwords_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    url = "mongodb://us:hunter2@a,b/x?tls=true&tlsCertificateKeyFilePassword=hunter4&w=1"
    assert main(["config", "--store", url]) == 0
    shown = capsys.readouterr().out
    assert "mongodb://us:***@a,b/x?tls=true&tlsCertificateKeyFilePassword=***&w=1" in shown
    assert "hunter" not in shown


def test_the_demo_leads_to_the_commands_of_the_readme() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    commands = [line.strip() for line in NEXT.splitlines() if line.startswith("  ")]
    assert len(commands) == 6
    assert [command for command in commands if f"\n{command}" not in readme] == []

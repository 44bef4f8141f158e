"""`functory doctor` judges by the minimum that a daemon with the same settings would ask for."""

import json
from pathlib import Path

import pytest

from functory.cli import main
from runner.launch import Level
from runner.sandbox.probe import Report

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _machine_that_gives_l2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def probe(*, brief: bool) -> Report:
        assert brief
        return Report(Level.L2, Level.L2, (), ())

    monkeypatch.setattr("functory.cli.doctor.probe", probe)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("minimum", "status"), [("L1", 0), ("L2", 0), ("L3", 1)])
@pytest.mark.parametrize("place", ["environment", "file", "flag"])
def test_the_minimum_is_that_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, place: str, minimum: str, status: int
) -> None:
    given = []
    if place == "environment":
        monkeypatch.setenv("FUNCTORY_MIN_ISOLATION", minimum)
    elif place == "file":
        (tmp_path / "own.toml").write_text(f'min_isolation = "{minimum}"\n')
        given = ["--config", str(tmp_path / "own.toml")]
    else:
        given = ["--min-isolation", minimum]
    assert main(["doctor", "--brief", *given]) == status
    verdict = "NOT enough" if status else "enough"
    assert f"Isolation level L2: {verdict} for the minimum {minimum}." in capsys.readouterr().out
    assert main(["doctor", "--brief", "--json", *given]) == status
    told = json.loads(capsys.readouterr().out)
    assert (told["level"], told["minimum"]) == ("L2", minimum)

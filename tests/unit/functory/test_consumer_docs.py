"""The program of docs/consumers.md runs as it stands there, and prints what the page says."""

import re
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(__file__).parents[3] / "docs" / "consumers.md"
_PYTHON: Final = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PRINTED: Final = re.compile(r"^```\n(processed .*?)^```", re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(_PYTHON.findall(text)), str(PAGE), "exec"), {})  # noqa: S102 (our own page)
    assert capsys.readouterr().out == _PRINTED.findall(text)[0]

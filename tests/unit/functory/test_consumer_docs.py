"""The program of docs/consumers.md runs as it stands there, and prints what the page says."""

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(__file__).parents[3] / "docs" / "consumers.md"
_PYTHON: Final = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PRINTED: Final = re.compile(r"^```\n(processed .*?)^```", re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    program: dict[str, object] = {}
    exec(compile("\n".join(_PYTHON.findall(text)), str(PAGE), "exec"), program)  # noqa: S102 (our own page)
    main = program["main"]
    assert callable(main)
    asyncio.run(main(tmp_path))
    assert capsys.readouterr().out == _PRINTED.findall(text)[0]

"""The one line that stands for an error on every page: the cause, in each language's way of telling it."""

import pytest

from functory.execution.outcomes import last_line

PYTHON = b"Traceback (most recent call last):\n  File \"body\", line 1\nKeyError: 'a'\n"
NODE = b"Error: no such invoice\n    at Object.call (handler.js:1:7)\n    at process (node:internal:95:5)"
PHP = b"Exception: no cover sheet in line 3\n#0 handler.php(9) : eval()'d code(3): report()\n#1 {main}"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (PYTHON, "KeyError: 'a'"),
        (NODE, "Error: no such invoice"),
        (PHP, "Exception: no cover sheet in line 3"),
        (b"    at nothing else", "at nothing else"),
        (b"bell\x07 and \xff", "bell  and \ufffd"),
        (b"", ""),
        (b"x" * 500, "x" * 200),
    ],
)
def test_the_line_that_says_what_happened(result: bytes, message: str) -> None:
    assert last_line(result) == message

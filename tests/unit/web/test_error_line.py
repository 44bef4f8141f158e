"""The line that the editor marks after a try."""

import pytest

from functory.web.pages.error_line import error_line
from runner.launch import Level
from runner.outcome import Stopped

PYTHON = b'  File "handler.py", line 5, in handler\n  File "handler.py", line 3, in f\n  File "json/x.py", line 9'
NODE = b"Error: no\n    at f (handler.js:2:22)\n    at Object.call (handler.js:3:8)"
PHP = b"Exception: no in line 2\n#0 handler.php(3): f()"


def stopped(result: bytes, log: bytes = b"", code: str = "error") -> Stopped:
    return Stopped("id", code, 500, result, log, 1.0, (), Level.L0)


@pytest.mark.parametrize(
    ("lang", "result", "log", "line"),
    [
        ("python", PYTHON, b"", 3),
        ("node", NODE, b"", 2),
        ("php", PHP, b"", 2),
        ("sh", b"exit status 1", b"a\nhandler: 2: /tmp/1: cmd: not found\n", 2),
        ("sh", b"exit status 1", b"nothing of the shell", 0),
        ("python", b"out of memory: the limit is 128 MB", b"", 0),
        ("http", b'File "handler.py", line 3', b"", 0),
    ],
)
def test_the_innermost_line_of_the_body_is_found(lang: str, result: bytes, log: bytes, line: int) -> None:
    assert error_line(lang, stopped(result, log)) == line


def test_a_result_that_looks_like_a_trace_marks_nothing() -> None:
    assert error_line("python", stopped(PYTHON, code="ok")) == 0


FOLDER_PYTHON = b'File "main.py", line 5, in handler\n  File "lib/a+b.py", line 3, in f\n  File "json/main.py", line 9'
FOLDER_NODE = b"Error: no\n    at f (/functory/handler/lib/a.js:2:22)\n    at call (/functory/handler/a.js:3:8)"


@pytest.mark.parametrize(
    ("lang", "result", "file", "line"),
    [
        ("python", FOLDER_PYTHON, "main.py", 5),
        ("python", FOLDER_PYTHON, "lib/a+b.py", 3),
        ("python", FOLDER_PYTHON, "lib/a.b.py", 0),
        ("node", FOLDER_NODE, "a.js", 3),
        ("node", FOLDER_NODE, "lib/a.js", 2),
        ("php", PHP, "main.php", 2),
        ("php", PHP, "lib/a.php", 0),
    ],
)
def test_in_a_folder_it_is_a_line_of_the_open_file(lang: str, result: bytes, file: str, line: int) -> None:
    assert error_line(lang, stopped(result), file, "main.php") == line

"""The one line that stands for an error on every page: the cause, in each language's way of telling it."""

import pytest

from functory.execution.failure_message import fingerprint, message_of
from runner.limits import NO_NETWORK, NO_PACKAGES, NOT_AMONG_PACKAGES

PYTHON = b"Traceback (most recent call last):\n  File \"body\", line 1\nKeyError: 'a'\n"
NODE = b"Error: no such invoice\n    at Object.call (handler.js:1:7)\n    at process (node:internal:95:5)"
PHP = b"Exception: no cover sheet in line 3\n#0 handler.php(9) : eval()'d code(3): report()\n#1 {main}"

GROUP = b"""\
  + Exception Group Traceback (most recent call last):
  |   File "handler.py", line 1, in handler
  |     raise ExceptionGroup('some', [ValueError('a'), KeyError('b')])
  | ExceptionGroup: some (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +---------------- 2 ----------------
    | KeyError: 'b'
    +------------------------------------
"""
OF_A_TASK_GROUP = b"""\
  + Exception Group Traceback (most recent call last):
  |   File "taskgroups.py", line 145, in __aexit__
  |     raise me from None
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "handler.py", line 3, in fetch
    |     raise OSError('no route')
    | OSError: no route
    +------------------------------------
"""
CHAINED = PYTHON + b"\nDuring handling of the above exception:\n\n" + PYTHON.replace(b"KeyError: 'a'", b"OSError: no")
ASSERTION = b"""\
AssertionError [ERR_ASSERTION]: Expected values to be strictly deep-equal:
+ actual - expected

  {
+   a: 1
-   a: 2
  }
    at Object.call (handler.js:1:19)"""
OF_A_COMMAND = b"Error: Command failed: false\nbad\n\n    at checkExecSyncError (node:child_process:891:11)"
JAVA = b"java.io.IOException: no\n\tat a.B.c(B.java:1)\nCaused by: a.NoRouteException: far\n\tat a.B.d(B.java:2)"

NO_MODULE = "Error: Cannot find module 'x'"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (PYTHON, "KeyError: 'a'"),
        (NODE, "Error: no such invoice"),
        (PHP, "Exception: no cover sheet in line 3"),
        (b"Exception: no\n\n in line 1", "Exception: no"),
        (b"Exception: no\n\n in line 1\n#0 handler.php(1): report()", "Exception: no"),
        (PYTHON + b"a note\nof two lines\n", "KeyError: 'a'"),
        (CHAINED, "OSError: no"),
        (GROUP, "ExceptionGroup: some (2 sub-exceptions)"),
        (OF_A_TASK_GROUP, "OSError: no route"),
        (ASSERTION, "AssertionError [ERR_ASSERTION]: Expected values to be strictly deep-equal:"),
        (OF_A_COMMAND, "Error: Command failed: false"),
        (b"NoRoom: full\nfor good\n\n    at Object.call (handler.js:1:7)", "for good"),
        (b"Error: \n\n    at Object.call (handler.js:1:7)", "Error:"),
        (JAVA, "java.io.IOException: no, caused by a.NoRouteException: far"),
        (b'  File "cut off", line 1\n    pass', "pass"),
        (
            f"Error: Cannot find module 'x'\nRequire stack:\n- /tmp/a/noop.js\n    at f\n{NO_PACKAGES}".encode(),
            NO_MODULE,
        ),
        (f"{NO_MODULE}\n{NOT_AMONG_PACKAGES}\n".encode(), NO_MODULE),
        (PYTHON + NO_NETWORK.encode(), "KeyError: 'a'"),
        (f"exit status 6\n{NO_NETWORK}".encode(), "exit status 6"),
        (f"{NO_MODULE}\nRequire stack:\n- /tmp/a/noop.js\n- /tmp/b.js\n    at f".encode(), NO_MODULE),
        (b"failed:\n- /etc/x missing", "- /etc/x missing"),
        (PYTHON.replace(b"KeyError: 'a'", b"ValueError: \n\n  reason is here\nand more"), "ValueError: reason is here"),
        (PYTHON.replace(b"KeyError: 'a'", b"a.b.NoRoom: \n"), "a.b.NoRoom:"),
        (b"TypeError: \nreason is here\nand more\n    at Object.call (handler.js:1:7)", "TypeError: reason is here"),
        (b"    at nothing else", "at nothing else"),
        (b"bell\x07 and \xff", "bell  and \ufffd"),
        (b"ValueError: \x1b[31mred\x1b[0m", "ValueError: red"),
        (b"\x1b[1mError: no\n\x1b[2m    at call (handler.js:1:7)\n\x1b[0m", "Error: no"),
        (b"\x1b]8;;" + b"x" * 300 + b"\x07a link\x1b]8;;\x07", "a link"),
        (b"", ""),
        (b"x" * 500, "x" * 200),
        (b'"disk is full"', "disk is full"),
        (b'"Oh no\\nKeyError: \\u00e9"', "KeyError: \u00e9"),
        (b' {"error": "disk is full", "free": 0}\n', "disk is full"),
        (b'{"error":{"code":"no_room","message":"disk is full"}}', "disk is full"),
        (b'{"error":null,"message":"disk is full"}', "disk is full"),
        (b'{"free":0}', '{"free":0}'),
        (b'""', '""'),
        (b'{"error":""}', '{"error":""}'),
        (b'"not closed', '"not closed'),
        (b'"lone \\ud800"', '"lone \\ud800"'),
        pytest.param(b'{"error":' * 800, ('{"error":' * 23)[:200], id="nested"),
    ],
)
def test_the_line_that_says_what_happened(result: bytes, message: str) -> None:
    assert message_of(result) == message


@pytest.mark.parametrize(
    ("one", "other", "is_one_group"),
    [
        ("KeyError: 'a'", "KeyError: 'b'", True),
        ("no file 'it's here'", "no file 'it's gone'", True),
        ("not text: b'a'", "not text: b'b'", True),
        ('no "a" at 0x7f', 'no "b" at 0x80', True),
        ("can't open the door, it isn't there", "can't pay the bill, it isn't there", False),
        ("the users' door is the owners' too", "the users' bill is the owners' too", False),
    ],
)
def test_errors_that_differ_in_quoted_values_are_one_group(one: str, other: str, is_one_group: bool) -> None:
    assert (fingerprint(400, one) == fingerprint(400, other)) is is_one_group


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (b"Error: order 17 failed\n    at x (handler.js:1:7)\nCaused by: thrown: { status: 502 }",
         "Error: order 17 failed, caused by thrown: { status: 502 }"),
        (b"TypeError: fetch failed\n    at a (x:1:1)\nCaused by: Error: connect ECONNREFUSED\n    at b (y:1:1)",
         "TypeError: fetch failed, caused by Error: connect ECONNREFUSED"),
        (b"LogicException: outer in line 4\nCaused by: Exception: inner in line 2",
         "LogicException: outer in line 4, caused by Exception: inner in line 2"),
        (b"thrown: { code: 5, message: 'plain' }", "thrown: { code: 5, message: 'plain' }"),
    ],
)  # fmt: skip
def test_an_error_is_named_with_its_cause(told: bytes, message: str) -> None:
    assert message_of(told) == message

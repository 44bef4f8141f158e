"""No Python file over 400 lines, no function over 50: past that there is a second idea in it.

Programs of the sandbox (bootstraps, attacks) are exempt: each must be one file. `STILL_TOO_LONG` lists what was too
long before the rule. It may only shrink: an entry that is no longer needed fails the check as well.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MOST_FILE_LINES: Final = 400
MOST_FUNCTION_LINES: Final = 50

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("bench", "functory", "handlers", "journal", "runner", "scheduler", "store", "tests", "vocabulary")
EXEMPT: Final = ("handlers/bootstraps/", "runner/sandbox/attacks/")
STILL_TOO_LONG: Final[frozenset[str]] = frozenset()


def too_long(path: str, text: str) -> Iterator[tuple[str, str]]:
    """What is too long in a file, and the sentence that says so."""
    if (lines := len(text.splitlines())) > MOST_FILE_LINES:
        yield path, f"{path} has {lines} lines. The limit is {MOST_FILE_LINES}: split it."
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                where = f"{path}:{node.lineno}: {node.name}()"
                yield (
                    f"{path}: {node.name}",
                    f"{where} has {lines} lines. The limit is {MOST_FUNCTION_LINES}: split it.",
                )


def test_files_and_functions_stay_short() -> None:
    found: dict[str, str] = {}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            path = file.relative_to(ROOT).as_posix()
            if not path.startswith(EXEMPT):
                found |= too_long(path, file.read_text())
    new = [sentence for name, sentence in sorted(found.items()) if name not in STILL_TOO_LONG]
    assert not new, "\n".join(new)
    done = sorted(STILL_TOO_LONG - found.keys())
    assert not done, f"no longer too long, remove from STILL_TOO_LONG: {', '.join(done)}"


def test_a_file_of_the_limit_passes_and_one_line_more_does_not() -> None:
    assert not list(too_long("a.py", "x = 1\n" * MOST_FILE_LINES))
    [(name, sentence)] = too_long("a.py", "x = 1\n" * (MOST_FILE_LINES + 1))
    assert name == "a.py"
    assert "401 lines" in sentence


def test_methods_and_coroutines_count_from_their_first_to_their_last_line() -> None:
    def text(lines: int) -> str:
        return "class A:\n    async def f(self):\n" + "        pass\n" * (lines - 1)

    assert not list(too_long("a.py", text(MOST_FUNCTION_LINES)))
    [(name, sentence)] = too_long("a.py", text(MOST_FUNCTION_LINES + 1))
    assert name == "a.py: f"
    assert "a.py:2: f() has 51 lines" in sentence

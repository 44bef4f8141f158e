"""A progress bar, and the step that is under way, on standard error: drawn only on a terminal."""

import shutil
import sys
from types import TracebackType
from typing import Final, Self

_WIDTH: Final = 30
_CLEAR_LINE: Final = "\r\x1b[K"


class Progress:
    """`with Progress("added", 5000) as progress: progress.at(1000)`. total is None if it is not known yet."""

    def __init__(self, what: str, total: int | None, *, is_shown: bool | None = None) -> None:
        self._what = what
        self._total = total
        self._is_shown = sys.stderr.isatty() and total not in {0, 1} if is_shown is None else is_shown
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            print(file=sys.stderr)

    def at(self, count: int) -> None:
        self._count = count
        if not self._is_shown:
            return
        text = f"{count:,} {self._what}"
        if self._total:
            filled = _WIDTH * min(count, self._total) // self._total
            text = f"{'█' * filled}{'░' * (_WIDTH - filled)} {count:,}/{self._total:,} {self._what}"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line above the bar."""
        print(f"{_CLEAR_LINE if self._is_shown else ''}{text}", file=sys.stderr, flush=True)
        self.at(self._count)


class StepLine:
    """`with StepLine() as line: line.show("installing")`: one line that shows the last step, and is gone at the end."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draw("")

    def show(self, step: str) -> None:
        """A step that does not fit into the line is cut: a second line could not be taken back."""
        columns = shutil.get_terminal_size().columns
        self._draw("".join(char for char in step if char.isprintable())[: columns - 1])

    def _draw(self, text: str) -> None:
        if self._is_shown:
            print(f"{_CLEAR_LINE}{text}", end="", file=sys.stderr, flush=True)

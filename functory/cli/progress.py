"""A progress bar on standard error, for people only: nothing is drawn where nobody looks."""

import sys
from types import TracebackType
from typing import Self

_WIDTH = 30


class Progress:
    """`with Progress("added", 5000) as progress: progress.at(1000)`"""

    def __init__(self, what: str, total: int, *, is_shown: bool | None = None) -> None:
        self._what = what
        self._total = max(total, 1)
        self._is_shown = sys.stderr.isatty() and total > 1 if is_shown is None else is_shown

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            print(file=sys.stderr)

    def at(self, count: int) -> None:
        if self._is_shown:
            filled = _WIDTH * min(count, self._total) // self._total
            bar = "█" * filled + "░" * (_WIDTH - filled)
            print(f"\r{bar} {count:,}/{self._total:,} {self._what}", end="", file=sys.stderr, flush=True)

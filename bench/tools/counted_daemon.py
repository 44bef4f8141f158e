"""A daemon whose event loop counts its calls of Python functions: python -m bench.tools.counted_daemon FILE serve ...

The first SIGUSR1 begins, the next one ends and writes FILE, as `pstats` reads it. Counts are those of the main thread,
where the event loop is; its times are too long by what the counting costs.
"""

import cProfile
import signal
import sys
from pathlib import Path
from types import FrameType

from functory.cli.main import main


class Counting:
    def __init__(self, out: Path) -> None:
        self._out = out
        self._profile: cProfile.Profile | None = None

    def toggle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._profile is None:
            self._profile = cProfile.Profile()
            self._profile.enable()
            return
        self._profile.disable()
        unfinished = self._out.with_suffix(".part")
        self._profile.dump_stats(unfinished)
        self._profile = None
        unfinished.rename(self._out)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, Counting(Path(sys.argv[1])).toggle)
    sys.exit(main(sys.argv[2:]))

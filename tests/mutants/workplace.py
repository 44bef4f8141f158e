"""A copy of the tree in which one mutant after the other lives and, as a rule, dies."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutants.mutant import ROOT, Mutant

FOLDER: Final = ROOT / ".cache" / "mutants"
TIME_LIMIT_S: Final = 300.0
TEST_LIMIT_S: Final = 90
_TAIL_CHARS: Final = 3000
_PLUGINS: Final = ("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "pytest_aiohttp.plugin")
"""Those that our tests need: to load all that are installed takes longer than most mutants live."""
_LIMIT: Final = f"--timeout={TEST_LIMIT_S}"


class Fate(StrEnum):
    KILLED = "killed"
    SLOW = "killed by the clock"
    LIVING = "living"
    BROKEN = "broken"
    """The tests did not even start, or did not come to an end: no meaningful mutant."""
    UNSOUND = "unsound"
    """The test that failed fails without the mutant, too."""


_FATES: Final = {0: Fate.LIVING, 1: Fate.KILLED, None: Fate.SLOW}
"""By the exit status of pytest."""


class Verdict(NamedTuple):
    mutant: Mutant
    fate: Fate
    seconds: float
    detail: str


class Workplace:
    def __init__(self, number: int, mongodb_url: str) -> None:
        self.root = FOLDER / f"{os.getpid()}-{number}"
        self._mongodb_url = mongodb_url
        self._mtime_s = time.time()
        self._process: subprocess.Popen[str] | None = None
        self._sound: dict[str, bool] = {}

    def prepare(self) -> None:
        """Copy all files that git knows or would take."""
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, names):
            if (ROOT / name).is_file():
                target = self.root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        (self.root / ".cache").mkdir()
        (self.root / ".cache" / "mongo").symlink_to(ROOT / ".cache" / "mongo")

    def remove(self) -> None:
        """Also when a run was interrupted: then end its tests."""
        if self._process is not None and self._process.poll() is None:
            self._kill()
        shutil.rmtree(self.root, ignore_errors=True)

    def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def try_mutant(self, mutant: Mutant, first: str = "") -> Verdict:
        """`first` is a test that is likely to see it; then come those of its row."""
        began_s = time.monotonic()
        sound = mutant.put_into(self.root)
        self._touch(mutant.file)
        try:
            status, output = self._run_tests([first]) if first else (0, "")
            if status != 1:
                status, output = self._run_tests(shlex.split(mutant.tests))
        finally:
            (self.root / mutant.file).write_text(sound)
            self._touch(mutant.file)
        fate, detail = _FATES.get(status, Fate.BROKEN), _failed_test(output)
        if fate == Fate.BROKEN:
            detail = f"pytest ended with {status}: {output}"
        elif fate != Fate.LIVING and not self._is_sound(shlex.quote(detail) if detail else mutant.tests):
            fate, detail = Fate.UNSOUND, f"{detail or 'a test'} fails without it, too"
        return Verdict(mutant, fate, time.monotonic() - began_s, detail)

    def _is_sound(self, tests: str) -> bool:
        """Whether they pass on the code as it is: if not, they have killed nothing."""
        if tests not in self._sound:
            self._sound[tests] = self._run_tests(shlex.split(tests))[0] == 0
        return self._sound[tests]

    def _run_tests(self, tests: list[str]) -> tuple[int | None, str]:
        """The exit status, None when they did not end in time, and the end of what they said."""
        # Their own process group: whatever the tests have started ends with them.
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_PLUGINS, "-x", "-q", "--no-header", "--tb=line", _LIMIT, *tests],
            cwd=self.root,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        try:
            output, _ = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._kill()
            output, _ = process.communicate()
            return None, output[-_TAIL_CHARS:]
        return process.returncode, output[-_TAIL_CHARS:]

    def _environ(self) -> dict[str, str]:
        environ = {name: value for name, value in os.environ.items() if name != "CI"}
        environ |= {"PYTHONPATH": str(self.root), "PYTHONPYCACHEPREFIX": str(self.root / ".cache" / "pycache")}
        environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "FUNCTORY_RACES": "all"}
        environ["FUNCTORY_HYPOTHESIS"] = "first failure"  # nobody reads the smallest example of a mutant
        if self._mongodb_url:
            environ["FUNCTORY_TEST_MONGODB_URL"] = self._mongodb_url
        return environ

    def _touch(self, file: str) -> None:
        """Compiled code is recognised as old by whole seconds and size; a mutant may have the size of the original."""
        self._mtime_s += 2
        os.utime(self.root / file, (self._mtime_s, self._mtime_s))


def remove_leftovers() -> None:
    """Of runs that were killed."""
    for path in FOLDER.glob("*-*"):
        if not Path("/proc", path.name.partition("-")[0]).exists():
            shutil.rmtree(path, ignore_errors=True)


def _failed_test(output: str) -> str:
    """The node id of the test that failed first."""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return lines[0].split(" ", 1)[1].partition(" - ")[0] if lines else ""

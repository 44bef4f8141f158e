"""A context does not depend on where the code lies: every path, mode and owner gives the same contexts at every level.

The packages are copied to a hostile place and run from there by a process of their own, which starts a context of each
language and prints what it heard.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handlers.languages import LANGUAGES
from runner.sandbox.layers import Layer
from tests.support.needs import missing

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("handlers", "runner", "vocabulary")

PROGRAM = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from handlers.languages import LANGUAGES
from runner.runner import Runner
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer

async def main():
    runner = Runner(SandboxLauncher({Layer(name) for name in sys.argv[2].split(",")}))
    await runner.start()
    print("level", runner.level.name)
    for name, language in LANGUAGES.items():
        if language.in_context and language.missing() is None:
            print(name, await runner.try_language(name) or "up")
    await runner.close()

asyncio.run(main())
"""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A new folder below the one that the test is about, gone afterwards."""
    parent, name, mode = request.param
    if not os.access(parent, os.W_OK):
        missing(f"the right to write to {parent}", "run the tests as root")
    place = Path(parent, f"{name}-{os.getpid()}")
    place.mkdir(mode=mode)
    yield place
    shutil.rmtree(place)


def settle(place: Path) -> Path:
    for package in PACKAGES:
        if (ROOT / package).exists():
            shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def start_contexts(place: Path, layers: frozenset[Layer], env: dict[str, str] | None = None) -> dict[str, str]:
    command = [sys.executable, "-B", "-c", PROGRAM, str(place), ",".join(layers)]
    environ = os.environ | (env or {})
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def all_up(found: dict[str, str], level: str) -> None:
    expected = {name for name, language in LANGUAGES.items() if language.in_context and language.missing() is None}
    assert found == {"level": level} | dict.fromkeys(expected, "up")


def levels(machine: frozenset[Layer]) -> Iterator[tuple[str, frozenset[Layer]]]:
    """Those that this machine can give: with namespaces, and without them if there are other uids to separate by."""
    if Layer.NAMESPACES in machine:
        yield ("L3" if Layer.CGROUP in machine else "L2"), machine
    if Layer.UID in machine:
        yield "L1", machine - {Layer.NAMESPACES}


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        ("/tmp", "functory", 0o755),  # noqa: S108  # covered by the scratch space of a context
        ("/var/tmp", "functory", 0o755),  # noqa: S108
        ("/dev/shm", "functory", 0o755),  # noqa: S108  # a link in a context
        (Path.home(), "functory", 0o700),
        ("/var/tmp", "mein Ordner, größer 函数", 0o700),  # noqa: S108
    ],
    ids=["tmp", "var-tmp", "shm", "home", "odd-name"],
    indirect=True,
)
def test_any_folder(place: Path, machine: frozenset[Layer]) -> None:
    settle(place)
    for level, layers in levels(machine):
        all_up(start_contexts(place, layers), level)


@pytest.mark.slow
@pytest.mark.parametrize("place", [("/var/tmp", "closed", 0o700)], indirect=True)  # noqa: S108
def test_files_that_only_their_owner_can_read(place: Path, machine: frozenset[Layer]) -> None:
    """As a clone under umask 077 has them; and of another user than the one who runs it."""
    settle(place)
    for path in (place, *place.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    for level, layers in levels(machine):
        all_up(start_contexts(place, layers), level)
    if os.geteuid() == 0:
        for path in (place, *place.rglob("*")):
            os.chown(path, 12345, 12345)
        for level, layers in levels(machine):
            all_up(start_contexts(place, layers), level)


@pytest.mark.slow
@pytest.mark.parametrize("place", [("/var/tmp", "real", 0o700)], indirect=True)  # noqa: S108
def test_a_link_and_a_temporary_folder_elsewhere(place: Path, machine: frozenset[Layer]) -> None:
    settle(place)
    link, temporary = place / "link", place / "tmp"
    link.symlink_to(place)
    temporary.mkdir(mode=0o700)
    for level, layers in levels(machine):
        all_up(start_contexts(link, layers, {"TMPDIR": str(temporary)}), level)


@pytest.mark.slow
@pytest.mark.parametrize("place", [("/var/tmp", "readonly", 0o755)], indirect=True)  # noqa: S108
def test_a_read_only_file_system(place: Path, machine: frozenset[Layer]) -> None:
    if os.geteuid() != 0:
        missing("root, to mount", "run the tests as root")
    settle(place)
    subprocess.run(["mount", "--bind", "-o", "ro", str(place), str(place)], check=True)
    try:
        for level, layers in levels(machine):
            all_up(start_contexts(place, layers), level)
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("place", [("/var/tmp", "broken", 0o755)], indirect=True)  # noqa: S108
def test_a_language_that_cannot_start_says_why(place: Path, machine: frozenset[Layer]) -> None:
    """What the child wrote is the reason, and the other languages run."""
    settle(place)
    (place / "handlers" / "bootstraps" / "sh.py").write_text("raise SystemExit('the shelf is empty')")
    for _, layers in levels(machine):
        found = start_contexts(place, layers)
        assert "the shelf is empty" in found["sh"]
        assert found["python"] == "up"

"""The folder of trees, and builds that send what does not belong there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handlers.model import Handler
from runner.errors import PackagesRefusedError
from runner.packages.frames import FrameReader
from runner.packages.trees import Room, TreeFolder
from runner.programs import Program, with_packages
from runner.sandbox import leftovers
from tests.support.wheels import frame

ROOT = Path(__file__).resolve().parents[3]


PYTHON = Program(("python",), ())


def receive(folder: Path, sent: bytes, max_bytes: int = 1000) -> Path:
    reader, writer = os.pipe()
    os.write(writer, sent)
    os.close(writer)
    try:
        return TreeFolder(folder).receive(FrameReader(reader), Room("acme", "ab", "site", max_bytes)).site
    finally:
        os.close(reader)


def test_a_tree_is_there_when_it_is_whole(tmp_path: Path) -> None:
    site = receive(tmp_path, frame(b"F", "a/b.py", b"x = 1") + frame(b"F", "c.py") + frame(b"E"))
    assert (site / "a" / "b.py").read_bytes() == b"x = 1"
    assert (site / "a" / "b.py").stat().st_mode & 0o777 == 0o444
    found = TreeFolder(tmp_path).find("acme", "ab")
    assert found is not None
    assert (found.site, found.size_bytes) == (site, 5)
    assert found.modules == {"a", "c"}
    assert TreeFolder(tmp_path).find("acme", "cd") is None
    TreeFolder(tmp_path).remove(found)
    assert list((tmp_path / "acme").iterdir()) == []


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (frame(b"F", "../evil", b"x"), "leads out"),
        (frame(b"F", "a/../../evil", b"x"), "leads out"),
        (frame(b"F", "/etc/evil", b"x"), "leads out"),
        (frame(b"F", "a//b", b"x"), "leads out"),
        (frame(b"F", "/".join("a" * 40), b"x"), "leads out"),
        (frame(b"F", "a", b"x") + frame(b"F", "a", b"y"), "two packages have"),
        (frame(b"F", "a", b"x") + frame(b"F", "a/b", b"y"), "two packages have"),
        (frame(b"F", "a", b"x" * 1001), "limit"),
        (frame(b"X", "", b"Hash mismatch"), "Hash mismatch"),
    ],
)
def test_nothing_of_a_hostile_build_stays(tmp_path: Path, sent: bytes, told: str) -> None:
    with pytest.raises(PackagesRefusedError, match=told):
        receive(tmp_path / "packages", sent + frame(b"E"))
    assert list((tmp_path / "packages" / "acme").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packages"]


def test_half_a_build_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EOFError):
        receive(tmp_path, frame(b"F", "a.py", b"x") + frame(b"F", "b.py", b"xyz")[:-1])
    assert list((tmp_path / "acme").iterdir()) == []


def test_what_a_killed_daemon_left_is_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = receive(tmp_path, frame(b"F", "a.py") + frame(b"E"))
    for mark in ("1-4026531836-ab", leftovers.mark() + "-cd"):
        (tmp_path / "acme" / f".building-{mark}" / "site").mkdir(parents=True)
    monkeypatch.setattr(leftovers, "is_left_over", lambda name: name.startswith("1-"))
    TreeFolder(tmp_path).sweep()
    assert sorted(path.name[:14] for path in (tmp_path / "acme").iterdir()) == sorted(
        [f".building-{leftovers.mark()}"[:14], whole.parent.name[:14]]
    )


def test_a_relative_data_directory_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert receive(Path("data"), frame(b"F", "a.py") + frame(b"E")).is_relative_to(tmp_path)
    found = TreeFolder(Path("data")).find("acme", "ab")
    assert found is not None
    assert found.site.is_absolute()


KILLED = """
import os, sys
from pathlib import Path
from runner.packages.frames import FrameReader
from runner.packages.trees import Room, TreeFolder
TreeFolder(Path(sys.argv[1])).receive(FrameReader(0), Room("acme", "ab", "site", 1000))
"""


def test_a_kill_in_the_middle_of_a_build_leaves_nothing_half(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT) as build:
        assert build.stdin is not None
        build.stdin.write(frame(b"F", "a.py", b"x") + frame(b"F", "b.py", b"xyz")[:-1])
        build.stdin.flush()
        while not list(tmp_path.glob("acme/.building-*/site/b.py")):
            assert build.poll() is None
        build.kill()
    assert TreeFolder(tmp_path).find("acme", "ab") is None
    TreeFolder(tmp_path).sweep()
    assert list((tmp_path / "acme").iterdir()) == []


def test_contexts_import_what_the_text_imports(tmp_path: Path) -> None:
    site = receive(tmp_path, frame(b"F", "requests/__init__.py") + frame(b"F", "idna.py") + frame(b"E"))
    tree = TreeFolder(tmp_path).find("acme", "ab")
    assert tree is not None
    body = "import requests, json\nfrom os import path\ndef handler(payload, ctx):\n    import idna\n"
    argv = with_packages(PYTHON, Handler("python", body, env={"A": "b"}), tree)
    assert argv == ("python", site, '{"A": "b"}', "requests", "idna")
    assert with_packages(PYTHON, Handler("python", body, secrets=("KEY",)), tree) == ("python", site, "{}")

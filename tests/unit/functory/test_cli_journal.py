"""`functory journal ...` as a person sees it."""

import asyncio
import json
import shlex
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from functory.cli import main
from journal import Journal, JournalOptions, OsDisk
from journal.disk import OsFile


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two segments, four lines, one of which is read."""

    async def fill() -> None:
        async with Journal(tmp_path, "a7", JournalOptions(segment_bytes=1500)) as journal:
            await journal.write("acme-resize", ["one", "two\x1b[31m"], {"priority": "1000"})
            await journal.write("acme-mail", [b"\xff\x00"])
            await journal.write("acme-mail", ["x" * 600], notes=["j1 a ok"])
            reservation = await journal.read_reserve(1, 60)
            assert reservation
            await journal.read(reservation)
            await journal.rsync(reservation)

    asyncio.run(fill())
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[str]]:
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out.splitlines()


def test_cat_lists_every_line_and_nothing_reaches_the_terminal(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(capsys, "journal", "cat", directory)
    assert code == 0
    assert [line.split("|", 1)[1][:30] for line in lines] == [
        "acme-resize|one",
        r"acme-resize|two\x1b[31m",
        r"acme-mail|\xff\x00",
        "acme-mail|xxxxxxxxxxxxxxxxxxxx",
    ]


def test_cat_filters(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(capsys, "journal", "cat", "--unread", directory)[1]) == 3
    assert len(run(capsys, "journal", "cat", "--jobtype", "acme-mail", directory)[1]) == 2


def test_cat_speaks_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = run(capsys, "journal", "cat", "--json", directory)
    first, _, third, last = map(json.loads, lines)
    assert (first["payload"], first["priority"]) == ("one", "1000")
    assert third["payload_base64"] == "/wA="
    assert (last["payload"], last["note"]) == ("x" * 600, "j1 a ok")
    assert "note" not in first


def test_stats_is_a_table_of_segments(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, "journal", "stats", directory)
    assert code == 0
    assert lines[0].split() == ["segment", "begun", "sysid", "bytes", "batches", "lines", "torn", "state"]
    assert [line.split()[-1] for line in lines[2:4]] == ["reading", "unread"]
    assert [json.loads(line)["lines"] for line in run(capsys, "journal", "stats", "--json", directory)[1]] == [3, 1]


def test_verify_is_content_with_a_good_journal_and_with_a_torn_end(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "journal", "verify", directory) == (0, ["2 segments, 4 lines: no damage"])
    with (directory / "0000000002.journal").open("ab") as file:
        file.write(b"#:Batch half a")
    code, lines = run(capsys, "journal", "verify", directory)
    assert code == 0
    assert "not acknowledged" in lines[0]


def test_verify_tells_that_a_segment_is_lost(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "0000000001.journal").unlink()
    code, lines = run(capsys, "journal", "verify", directory)
    assert (code, lines[-1]) == (1, "1 segments, 1 lines: DAMAGED")
    assert lines[0].startswith("segment 1  lost: the file is gone, with lines that were not read  512..")
    _, rows = run(capsys, "journal", "stats", directory)
    assert [row.split()[-1] for row in rows[2:4]] == ["lost", "unread"]


@pytest.mark.parametrize("size", [0, 512])
def test_verify_tells_damage_of_a_segment_of_which_nothing_is_left(
    directory: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    (directory / "0000000001.journal").write_bytes(bytes(size))
    code, lines = run(capsys, "journal", "verify", directory)
    assert (code, lines[0].startswith("segment 1  damage  0..")) == (1, True)


@pytest.mark.parametrize("command", ["cat", "stats", "verify"])
@pytest.mark.parametrize("before", range(5))
def test_a_segment_that_is_removed_meanwhile_is_left_out(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, before: int
) -> None:
    """Whichever segment is opened next."""
    really_open, opened = OsDisk.open, count()

    def open_meanwhile(disk: OsDisk, name: str, *, writable: bool = False) -> OsFile:
        if name.endswith(".journal") and next(opened) == before:
            (directory / "0000000001.journal").unlink()
        return really_open(disk, name, writable=writable)

    monkeypatch.setattr(OsDisk, "open", open_meanwhile)
    code, lines = run(capsys, "journal", command, directory)
    assert (code, [line for line in lines if "lost" in line]) == (0, [])


@pytest.mark.parametrize(
    ("content", "code"), [("0123456789abcdef", 0), ("0123456789abcdef\n", 0), ("", 1), ("0123", 1)]
)
def test_verify_tells_that_the_identity_is_damaged(
    directory: Path, capsys: pytest.CaptureFixture[str], content: str, code: int
) -> None:
    (directory / "identity").write_text(content)
    status, lines = run(capsys, "journal", "verify", directory)
    told = [line for line in lines if line.startswith(f"{directory}/identity is damaged")]
    assert (status, len(told)) == (code, code)


def test_verify_tells_damage_with_its_offset(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / "0000000001.journal"
    content = bytearray(path.read_bytes())
    content[content.index(b"|one")] ^= 1
    path.write_bytes(content)
    code, lines = run(capsys, "journal", "verify", directory)
    assert code == 1
    assert lines[0].startswith("segment 1  damage  512..")
    assert lines[-1] == "2 segments, 2 lines: DAMAGED"
    assert json.loads(run(capsys, "journal", "verify", "--json", directory)[1][0])["offset"] == 512


def test_what_was_set_aside_as_damaged_stays_a_finding(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "0000000009.damaged").write_bytes(b"")
    assert run(capsys, "journal", "verify", directory)[0] == 1


def test_a_directory_that_is_none_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "cat", str(tmp_path / "nowhere")]) == 8
    assert "nowhere is not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["cat", "verify", "stats"])
def test_another_directory_is_not_a_sound_journal(
    directory: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    data_dir = tmp_path_factory.mktemp("data")
    assert main(["journal", action, str(data_dir)]) == 2
    assert capsys.readouterr().err.strip().endswith(f"{data_dir} is not a journal")
    directory.rename(data_dir / "journal-0")
    (data_dir / "journal-0" / "identity").write_text("0123456789abcdef")
    assert main(["journal", action, str(data_dir)]) == 2
    assert f"is not a journal; did you mean {data_dir}/journal-0?" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(directory: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m functory journal cat {directory} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_looking_changes_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in directory.iterdir()}
    for command in ("cat", "verify", "stats"):
        run(capsys, "journal", command, directory)
    assert {path: path.read_bytes() for path in directory.iterdir()} == before

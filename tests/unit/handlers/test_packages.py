"""What a handler's text asks for, the lock that it becomes, and the folder of trees: pure parts and hostile builds."""

import asyncio
import json
from pathlib import Path

import pytest

from handlers.errors import InvalidHandlerError
from handlers.folders.project import read_project
from handlers.packages import (
    Lock,
    LockedPackage,
    Requirements,
    parse_lock,
    read_locked,
    requirements_in,
    requirements_of,
)
from handlers.validation import parse_handler
from runner.errors import PackagesBusyError, PackagesMissingError, PackagesRefusedError
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.source import State
from runner.packages.trees import TreeFolder
from tests.support.told_sandbox import HASH, ToldSandbox, packages, until
from tests.support.wheels import asking_for, frame

LOCK = Lock("1" * 32, "3.11", (LockedPackage("requests", "2.31.0", (HASH,)),))


def test_a_text_says_what_it_needs() -> None:
    text = "x = 1\n" + asking_for("a>=1,<2", "b[c] == 1.* ; os_name == 'x'", requires_python=">=3.11", code="return x")
    found = requirements_in(text)
    assert found is not None
    assert found.dependencies == ("a>=1,<2", "b[c] == 1.* ; os_name == 'x'")
    assert found.allows("3.12.1")
    assert not found.allows("3.10.9")
    assert requirements_in("return 1") is None
    assert requirements_in("s = '# /// script'\nreturn 1") is None
    assert requirements_in(asking_for(code="return 1")) is None


@pytest.mark.parametrize("ends", ["\r\n", " \t\n", "  \r\n"])
def test_a_block_may_have_the_line_ends_of_windows_and_blanks_behind(ends: str) -> None:
    text = "x = 1\n" + asking_for("requests", "b[c] == 1.*", requires_python=">=3.11", code="return x")
    assert requirements_in(text.replace("\n", ends)) == requirements_in(text)


def test_a_folder_may_ask_in_a_file() -> None:
    text = b"\xef\xbb\xbf# all of it\n\na>=1  # why\r\nb[c]==1.* ; os_name == 'x'\n"
    wanted = Requirements(("a>=1", "b[c]==1.* ; os_name == 'x'"))
    assert requirements_of("python", "return 1", {"requirements.txt": text}) == wanted
    project = b'[project]\nrequires-python = ">=3.12"\ndependencies = ["a"]\n[tool.x]\n'
    assert requirements_of("python", "return 1", {"pyproject.toml": project}) == Requirements(("a",), ">=3.12")
    assert (
        requirements_of("python", "return 1", {"pyproject.toml": b"[tool.x]", "requirements.txt": b"# none\n"}) is None
    )
    assert requirements_of("python", asking_for("a", code=""), {"requirements.txt": b"\n"}) == Requirements(("a",))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("requirements.txt", b"-r other.txt", "options are not taken"),
        ("requirements.txt", b"a==1 --hash=sha256:00", "options are not taken"),
        ("requirements.txt", b"a @ https://example.org/a.whl", "addresses"),
        ("requirements.txt", b"\xff", "not text in UTF-8"),
        ("requirements.txt", b"a\n" * 101, "at most 100"),
        ("requirements.txt", b"#" * 70_000, "at most 65536"),
        ("pyproject.toml", b"[project", "not TOML"),
        ("pyproject.toml", b"project = 1", "must be a table"),
        ("pyproject.toml", b'[project]\ndependencies = "a"', "list of strings"),
        ("pyproject.toml", b'[project]\ndependencies = ["./a"]', "paths"),
        ("pyproject.toml", b"a = " + b"[" * 20_000, "not TOML"),
        ("pyproject.toml", b"a = " + b"1" * 20_000, "not TOML"),
        ("pyproject.toml", b"\n" + b"a." * 30_000 + b"a = 1", "line 2 has more than 200 dots"),
    ],
)
def test_files_that_cannot_be_meant_are_refused_by_name(name: str, data: bytes, words: str) -> None:
    with pytest.raises(InvalidHandlerError, match=words) as caught:
        requirements_of("python", "return 1", {name: data})
    assert caught.value.field == name


@pytest.mark.parametrize("key", ["a" + ".a" * 5000, '"."' + '."."' * 3000])
def test_a_key_of_many_parts_is_not_parsed(key: str) -> None:
    """It would hold up whoever parses it for seconds."""
    with pytest.raises(InvalidHandlerError, match="more than 200 dots"):
        requirements_in(f"# /// script\n# {key} = 1\n# ///\n")
    with pytest.raises(InvalidHandlerError, match="more than 200 dots"):
        read_project(f"{key} = 1".encode())


def test_packages_are_asked_for_in_one_place() -> None:
    with pytest.raises(InvalidHandlerError, match=r"in the text and in requirements\.txt: keep one"):
        requirements_of("python", asking_for("a", code=""), {"requirements.txt": b"b"})


@pytest.mark.parametrize(
    "dependency",
    [
        "a @ https://example.org/a.whl",
        "./a",
        "/srv/a.whl",
        "-e .",
        "--index-url=http://x",
        "git+https://x/a",
        "a\\nb",
        "${HOME}",
        "a # b",
    ],
)
def test_only_names_and_versions_are_taken(dependency: str) -> None:
    text = f'# /// script\n# dependencies = ["{dependency}"]\n# ///\n'
    with pytest.raises(InvalidHandlerError, match="addresses, paths and options are not taken"):
        requirements_in(text)


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("# /// script\n# dependencies = [\n# ///\n", "not TOML"),
        ("# /// script\n# dependencies = 'a'\n# ///\n", "list of strings"),
        ("# /// script\n# dependencies = ['a']\nreturn 1\n", "does not end"),
        ("# /// script\n# " + "x" * 20_000 + "\n# ///\n", "does not end"),
        ("# /// script\n# dependencies = " + "[" * 8_000 + "\n# ///\n", "not TOML"),
        ("# /// script\n# dependencies = ['a']\n# requires-python = 'new'\n# ///\n", "requires-python"),
        (f"# /// script\n# dependencies = {['a'] * 101}\n# ///\n", "at most 100"),
    ],
)
def test_what_is_wrong_with_a_block_is_said(block: str, told: str) -> None:
    with pytest.raises(InvalidHandlerError, match=told):
        requirements_in(block)


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [(">=3.11", True), ("<3.11", False), ("==3.11.*", True), ("!=3.11.*", False), ("~=3.10", True), ("~=3.11.8", False),
     ("==3.11.7", True), (">3.11.7", False), ("<=3.11.7", True), (">=3.9, <3.11.8", True), ("", True)],
)  # fmt: skip
def test_requires_python(wanted: str, *, allowed: bool) -> None:
    assert Requirements(("a",), wanted).allows("3.11.7") is allowed


def test_a_lock_is_part_of_the_version_and_comes_back() -> None:
    bare = parse_handler({"lang": "python", "body": "return 1"})
    locked = parse_handler({"lang": "python", "body": "return 1", "lock": LOCK.to_json()})
    assert locked.lock == LOCK
    assert locked.version != bare.version
    assert locked.surroundings != bare.surroundings
    assert parse_handler(json.loads(json.dumps(locked.to_json()))) == locked
    assert bare.to_json()["lock"] is None
    with pytest.raises(InvalidHandlerError, match="no meaning for sh"):
        parse_handler({"lang": "sh", "body": "true", "lock": LOCK.to_json()})


@pytest.mark.parametrize(
    "package",
    [
        {"name": "a", "version": "1\n--index-url=http://x", "hashes": [HASH]},
        {"name": "-e /", "version": "1", "hashes": [HASH]},
        {"name": "a", "version": "1", "hashes": []},
        {"name": "a", "version": "1", "hashes": ["md5:0"]},
        {"name": "a", "version": "1", "hashes": HASH},
        {"name": "a"},
        "a",
    ],
)
def test_a_lock_that_was_not_made_here_is_refused(package: object) -> None:
    with pytest.raises(InvalidHandlerError, match="lock"):
        parse_lock({**LOCK.to_json(), "packages": [package]})


def test_a_resolvers_output_becomes_a_lock() -> None:
    text = f"b==2 ; python_version > '3' \\\n    --hash={HASH} \\\n    --hash={HASH}\na==1 \\\n    --hash={HASH}\n"
    assert read_locked(text) == (LockedPackage("a", "1", (HASH,)), LockedPackage("b", "2", (HASH, HASH)))
    with pytest.raises(ValueError, match="a"):
        read_locked("a==1\n")


# The provider, with a sandbox that does as it is told


@pytest.fixture
def told() -> ToldSandbox:
    return ToldSandbox()


def lock_of(number: int) -> Lock:
    return Lock("1" * 32, "3.11", (LockedPackage("a", str(number), (HASH,)),))


async def test_what_was_tried_is_what_is_saved(told: ToldSandbox, tmp_path: Path) -> None:
    shelf = packages(told, tmp_path)
    wanted = Requirements(("a",))
    first = await shelf.lock("acme", wanted)
    assert await shelf.lock("acme", wanted) == first
    assert await shelf.lock("other", wanted) != first
    assert await shelf.lock("acme", wanted, anew=True) != first
    with pytest.raises(PackagesRefusedError, match=r"requires-python is >=3\.12, and handlers have 3\.11\.7"):
        await shelf.lock("acme", Requirements(("a",), ">=3.12"))


async def test_a_tree_is_built_once_and_told_of(told: ToldSandbox, tmp_path: Path) -> None:
    heard: list[str] = []
    shelf = packages(told, tmp_path)
    shelf.when_changed(heard.append)
    told.gate.clear()
    assert not shelf.is_ready("acme", LOCK)
    builds = [asyncio.create_task(shelf.have("acme-x", LOCK)) for _ in range(3)]
    await until(lambda: shelf.progress("acme", LOCK).text == "installing")
    assert shelf.progress("acme", LOCK).state is State.BUILDING
    told.gate.set()
    assert len({tree.folder for tree in await asyncio.gather(*builds)}) == 1
    assert shelf.is_ready("acme", LOCK)
    assert heard == ["acme"]
    assert not shelf.is_ready("other", LOCK)  # another tenant has a tree of its own
    later = packages(told, tmp_path)
    assert (await later.known("acme", LOCK)).state is State.READY
    await shelf.close()


async def test_builds_are_bounded_in_all_and_for_a_tenant(told: ToldSandbox, tmp_path: Path) -> None:
    shelf = packages(told, tmp_path, builds=2)
    told.gate.clear()
    of_one = [asyncio.create_task(shelf.have("acme-x", lock_of(number))) for number in range(4)]
    others = [asyncio.create_task(shelf.have(f"t{number}-x", LOCK)) for number in range(3)]
    await until(lambda: told.now >= 2 and shelf._waiting["acme"] == 4)
    with pytest.raises(PackagesBusyError, match="4 builds"):
        await shelf.have("acme-x", lock_of(9))
    told.gate.set()
    await asyncio.gather(*of_one, *others)
    assert told.most == 2
    assert told.most_of_one == 1


def some_time_later(shelf: Packages) -> None:
    """The timer that its failure has set goes off."""
    key, failure = next(iter(shelf._failures.items()))
    assert failure.again_s, "it has set none"
    shelf._may_try_again(key, failure)


async def test_want_of_room_time_or_memory_is_tried_again_ever_later(told: ToldSandbox, tmp_path: Path) -> None:
    shelf, waits = packages(told, tmp_path), []
    told.trouble = PackagesRefusedError("took longer than 300 s", is_final=False)
    for _ in range(7):
        assert not shelf.is_ready("acme", LOCK)
        await until(lambda: shelf.progress("acme", LOCK).state is State.FAILED)
        assert not shelf.is_ready("acme", LOCK)
        state, text = shelf.progress("acme", LOCK)
        assert (state, text.partition(";")[0]) == (State.FAILED, "took longer than 300 s")
        waits.append(next(iter(shelf._failures.values())).again_s)
        some_time_later(shelf)
        assert shelf.progress("acme", LOCK) == (State.FAILED, text), "until it is tried"
    assert waits == [30, 60, 120, 240, 480, 600, 600]
    told.trouble = None
    assert not shelf.is_ready("acme", LOCK)
    await until(lambda: shelf.is_ready("acme", LOCK))


async def test_packages_that_had_no_room_come_when_there_is_some(told: ToldSandbox, tmp_path: Path) -> None:
    quota = 15
    shelf = Packages(told, TreeFolder(tmp_path), ProviderSettings(), lambda _: quota)  # type: ignore[arg-type]
    await shelf.have("acme-x", LOCK)
    assert not shelf.is_ready("acme", lock_of(2))
    await until(lambda: shelf.progress("acme", lock_of(2)).state is State.FAILED)
    quota = 1000
    some_time_later(shelf)
    assert not shelf.is_ready("acme", lock_of(2))
    await until(lambda: shelf.is_ready("acme", lock_of(2)))


async def test_a_failure_is_kept_and_the_networks_is_tried_again(told: ToldSandbox, tmp_path: Path) -> None:
    heard: list[str] = []
    shelf = packages(told, tmp_path)
    shelf.when_changed(heard.append)
    told.trouble = PackagesRefusedError("no wheel")
    with pytest.raises(PackagesRefusedError):
        await shelf.have("acme-x", LOCK)
    assert shelf.progress("acme", LOCK) == (State.FAILED, "no wheel")
    assert not shelf.is_ready("acme", LOCK)
    assert shelf.progress("acme", LOCK).state is State.FAILED  # asking again does not build again
    told.trouble = PackagesMissingError("the index does not answer")
    with pytest.raises(PackagesMissingError):
        await shelf.have("acme-x", LOCK)
    some_time_later(shelf)
    told.trouble = None
    assert not shelf.is_ready("acme", LOCK)
    await until(lambda: shelf.is_ready("acme", LOCK))


async def test_without_an_installer_what_is_there_still_runs(told: ToldSandbox, tmp_path: Path) -> None:
    await packages(told, tmp_path).have("acme-x", LOCK)
    shelf = packages(told, tmp_path, unavailable={"python": "uv is not installed"})
    assert (await shelf.have("acme-x", LOCK)).key
    with pytest.raises(PackagesMissingError, match="uv is not installed"):
        await shelf.have("acme-x", lock_of(2))
    with pytest.raises(PackagesMissingError, match="uv is not installed"):
        await shelf.lock("acme", Requirements(("a",)))


async def test_a_tenant_has_a_quota(told: ToldSandbox, tmp_path: Path) -> None:
    mb = 1 << 20
    told.sent = frame(b"F", "a.py", bytes(2 * mb)) + frame(b"E")
    shelf = packages(told, tmp_path, quota=3 * mb, tree_bytes=12 * mb)
    await shelf.have("acme-x", LOCK)
    what = r"more than 1\.0 MB when they are installed, which is what is left of the 3\.0 MB that the tenant may have; "
    with pytest.raises(PackagesRefusedError, match=f"{what}packages of all versions that are kept count"):
        await shelf.have("acme-x", lock_of(2))
    await shelf.have("other-x", lock_of(2))
    told.sent = frame(b"F", "a.py", bytes(mb)) + frame(b"E")
    await shelf.have("acme-x", lock_of(3))
    with pytest.raises(PackagesRefusedError, match=r"has 3\.0 MB of packages, and may have 3\.0 MB; packages of all"):
        await shelf.have("acme-x", lock_of(2))
    told.sent = frame(b"F", "a.py", bytes(13 * mb)) + frame(b"E")
    with pytest.raises(PackagesRefusedError, match=r"more than 12 MB when they are installed, which is the limit$"):
        await packages(told, tmp_path / "other", tree_bytes=12 * mb).have("acme-x", LOCK)


async def test_closing_ends_builds(told: ToldSandbox, tmp_path: Path) -> None:
    shelf = packages(told, tmp_path)
    told.gate.clear()
    build = asyncio.create_task(shelf.have("acme-x", LOCK))
    await until(lambda: told.now > 0)
    await shelf.close()
    with pytest.raises(asyncio.CancelledError):
        await build

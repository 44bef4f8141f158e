"""What a node handler asks for in its files, and the lock that npm makes of it: pure parts, and hostile files."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.errors import InvalidHandlerError
from handlers.languages import LANGUAGES
from handlers.npm import NodeRequirements, NotLockableError, as_text, clean_lock, read_npm_lock
from handlers.packages import Lock, Requirements, npm_lock, parse_lock, requirements_of
from handlers.validation import parse_handler
from runner.egress import NoEgress
from runner.errors import PackagesMissingError
from runner.packages.sandbox import BuildSandbox
from runner.packages.source import Progress, State
from runner.packages.tools import BuildSettings, Node, Npm, Uv
from runner.plain import PlainLauncher
from tests.support.told_sandbox import ToldSandbox, packages

HASH = "sha512-" + "A" * 86 + "=="
ENTRY = {"version": "1.0.0", "resolved": "https://registry.example/a/-/a-1.0.0.tgz", "integrity": HASH}


def asked(package: object, lock: object = None) -> NodeRequirements | None:
    files = {"package.json": json.dumps(package).encode()}
    if lock is not None:
        files["package-lock.json"] = json.dumps(lock).encode()
    found = requirements_of("node", "x", files)
    assert found is None or isinstance(found, NodeRequirements)
    return found


def lock_file(**packages: Any) -> dict[str, Any]:
    named = {f"node_modules/{name}": entry for name, entry in packages.items()}
    return {"lockfileVersion": 3, "packages": {"": {"dependencies": {"a": "^1.0.0"}}, **named}}


def test_a_folder_asks_in_package_json() -> None:
    package = {
        "name": "mine",
        "type": "module",
        "dependencies": {"b": " >=1.0 <2 ", "a": "^1", "@s/c": "npm:d@~2", "e": "", "f": "1.x || latest"},
        "optionalDependencies": {"g": "*"},
        "devDependencies": {"left": "git+https://example.org/left.git"},
    }
    found = asked(package)
    assert found is not None
    assert found.dependencies == (
        ("@s/c", "npm:d@~2"),
        ("a", "^1"),
        ("b", ">=1.0 <2"),
        ("e", ""),
        ("f", "1.x || latest"),
    )
    assert found.optional == (("g", "*"),)
    assert found.names[0] == "@s/c@npm:d@~2"
    assert asked({"name": "mine"}) is None
    assert asked({"dependencies": {}}, lock_file(a=ENTRY)) is None
    assert requirements_of("node", "x", {}) is None
    assert requirements_of("sh", "x", {}) is None


@pytest.mark.parametrize(
    "wanted",
    [
        "git+https://example.org/a.git", "git://example.org/a", "github:some/a", "some/a", "https://example.org/a.tgz",
        "file:../a", "link:../a", "../a", "./a", "/srv/a", "~/a", ".", "a.tgz", "a.TAR.GZ", "workspace:*", "npm:../a",
        "npm:a@some/a", "npm:a@npm:b", "1 --registry=http://x", "-x", "1\n2", "^1;2", 1, None, ["1"],
    ],
)  # fmt: skip
def test_only_names_and_versions_are_taken(wanted: object) -> None:
    with pytest.raises(InvalidHandlerError, match="addresses, paths and git are not taken") as caught:
        asked({"dependencies": {"a": wanted}})
    assert caught.value.field == "package.json"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/b", "@a", "@a/b/c", "@../a", "_a", ".bin", "a b", "a\0", "x" * 300]
)
def test_only_names_of_packages_are_taken(name: str) -> None:
    with pytest.raises(InvalidHandlerError, match="it asks for"):
        asked({"dependencies": {name: "1"}})


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("package.json", b"{", "is not JSON"),
        ("package.json", b"\xff", "is not JSON"),
        ("package.json", b"[" * 60_000, "is not JSON"),
        ("package.json", b"[1]", "must be a JSON object"),
        ("package.json", b" " * 70_000, "at most 65536"),
        ("package.json", b'{"dependencies": ["a"]}', "must be an object"),
        ("package.json", json.dumps({"dependencies": {f"a{n}": "1" for n in range(101)}}).encode(), "more than 100"),
        ("package.json", b'{"dependencies": {"a": "1"}, "overrides": {"b": "1"}}', "overrides is not taken"),
        ("package.json", b'{"workspaces": ["a"]}', "workspaces is not taken"),
        ("package-lock.json", b"{", "is not JSON"),
        ("package-lock.json", b'{"lockfileVersion": 1, "dependencies": {}}', "must be of version 2 or 3"),
        ("package-lock.json", b'{"lockfileVersion": 3}', "has no packages"),
        ("package-lock.json", b'{"lockfileVersion": 3, "packages": {"": {}}}', "at least 1"),
        ("package-lock.json", b" " * (1 << 20) + b"{}", "at most 1048576"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_meant_are_refused_by_name(name: str, data: bytes, words: str) -> None:
    with pytest.raises(InvalidHandlerError, match=words) as caught:
        requirements_of("node", "x", {"package.json": b'{"dependencies": {"a": "1"}}', name: data})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**ENTRY, "link": True}, "links and paths are not taken"),
        ({**ENTRY, "resolved": "git+ssh://git@example.org/a.git#00"}, "not from the registry"),
        ({**ENTRY, "resolved": "file:../a"}, "not from the registry"),
        ({**ENTRY, "resolved": 1}, "not from the registry"),
        ({**ENTRY, "integrity": None}, r"a 1\.0\.0 has no hash"),
        ({**ENTRY, "integrity": "sha1-" + "A" * 27 + "="}, "has no hash"),
        ({**ENTRY, "version": "git+https://example.org"}, "has no version of the registry"),
        ({**ENTRY, "name": "../../a"}, "its name is not that of a package"),
        ({**ENTRY, "dependencies": {"b": "some/b"}}, "a asks for 'b' as 'some/b'"),
        ({**ENTRY, "peerDependencies": {"b": "file:."}}, "a asks for 'b'"),
        ({**ENTRY, "os": [1]}, "os of a"),
        ({**ENTRY, "bundleDependencies": ["../b"]}, "bundleDependencies of a"),
        ({**ENTRY, "inBundle": True, "integrity": None}, "is in no package that brings it along"),
        ("1.0.0", "must be an object"),
    ],
)  # fmt: skip
def test_what_is_not_from_the_registry_cannot_be_locked(entry: object, words: str) -> None:
    with pytest.raises(InvalidHandlerError, match=words) as caught:
        asked({"dependencies": {"a": "^1.0.0"}}, lock_file(a=entry))
    assert caught.value.field == "package-lock.json"


@pytest.mark.parametrize(
    "place", ["node_modules/../a", "../node_modules/a", "packages/a", "node_modules/a/lib", "/etc"]
)
def test_packages_lie_in_node_modules(place: str) -> None:
    with pytest.raises(NotLockableError, match="links and paths are not taken"):
        clean_lock({"packages": {"": {}, place: ENTRY}})


def test_a_lock_keeps_what_decides_about_packages() -> None:
    inner = {"version": "2.0.0", "inBundle": True, "license": "MIT"}
    optional = {**ENTRY, "devOptional": True, "os": ["linux"], "cpu": "x64", "engines": {"node": ">=18"}}
    document = lock_file(
        a={
            **ENTRY,
            "bin": {"a": "a.js"},
            "hasInstallScript": True,
            "bundleDependencies": ["in"],
            "peerDependenciesMeta": {"p": {"optional": True}},
        },
        **{"a/node_modules/in": inner, "o": optional, "d": {**ENTRY, "dev": True, "link": True}},
    )
    text = read_npm_lock(json.dumps(document), lambda _: True)
    assert json.loads(text)["packages"] == {
        "": {"dependencies": {"a": "^1.0.0"}},
        "node_modules/a": {
            "version": "1.0.0", "integrity": HASH, "hasInstallScript": True, "bundleDependencies": ["in"],
            "peerDependenciesMeta": {"p": {"optional": True}},
        },
        "node_modules/a/node_modules/in": {"version": "2.0.0", "inBundle": True},
        "node_modules/o": {"version": "1.0.0", "integrity": HASH, "optional": True, "os": ["linux"], "cpu": ["x64"]},
    }  # fmt: skip
    lock = npm_lock("1" * 32, text)
    assert lock.unrun == ("a",)
    assert [package.name for package in lock.packages] == ["a", "in", "o"]
    with pytest.raises(NotLockableError, match="not from the registry"):
        read_npm_lock(json.dumps(document), lambda _: False)


def test_a_package_that_describes_itself_without_end_cannot_be_locked() -> None:
    """npm copies what a package says of who funds it into the lock, and anybody can publish a package."""
    text = json.dumps(lock_file(a={**ENTRY, "funding": "HERE"})).replace('"HERE"', "[" * 100_000 + "]" * 100_000)
    with pytest.raises(NotLockableError, match="nested too deeply"):
        read_npm_lock(text, lambda _: True)


def test_a_lock_is_part_of_the_version_and_comes_back() -> None:
    lock = npm_lock("1" * 32, as_text(clean_lock(lock_file(a=ENTRY))))
    fields = {"lang": "node", "body": "x", "entry": "main.js", "tree": "a" * 64}
    locked = parse_handler({**fields, "lock": lock.to_json()})
    assert locked.lock == lock
    assert locked.version != parse_handler(fields).version
    assert parse_handler(json.loads(json.dumps(locked.to_json()))) == locked
    other = npm_lock("1" * 32, lock.npm.replace("A" * 86, "B" * 86))
    assert other.digest != lock.digest
    with pytest.raises(InvalidHandlerError, match="is of node packages"):
        parse_handler({"lang": "python", "body": "x", "lock": lock.to_json()})
    python = Lock("1" * 32, "3.11", ())
    with pytest.raises(InvalidHandlerError):
        parse_handler({**fields, "lock": python.to_json()})


@pytest.mark.parametrize(
    "change",
    [
        {"packages": []},
        {"python": "3.11"},
        {"requirements": "1"},
        {"npm": {}},
        {"npm": lock_file(a={**ENTRY, "integrity": ""})},
        {"npm": lock_file(a=ENTRY)},  # with an address in it: such a lock was not made here
    ],
)
def test_a_lock_that_was_not_made_here_is_refused(change: dict[str, Any]) -> None:
    shown = npm_lock("1" * 32, as_text(clean_lock(lock_file(a=ENTRY)))).to_json()
    assert parse_lock(shown) is not None
    with pytest.raises(InvalidHandlerError, match="lock"):
        parse_lock({**shown, **change})


WORDS = st.sampled_from(["a", "1.0.0", HASH, "node_modules/a", "", "../x", "http://x/y", "optional", "os"])
KEYS = st.sampled_from(
    ["version", "integrity", "resolved", "name", "link", "dependencies", "os", "inBundle", "dev", "devOptional", "peer"]
)
VALUES = st.one_of(
    WORDS, st.booleans(), st.none(), st.lists(WORDS, max_size=2), st.dictionaries(WORDS, WORDS, max_size=2)
)
ENTRIES = st.one_of(VALUES, st.dictionaries(KEYS, VALUES, max_size=4).map(lambda more: {**ENTRY, **more}))
PLACES = st.sampled_from(
    ["", "node_modules/a", "node_modules/a/node_modules/b", "node_modules/@s/c", "x", "node_modules/.."]
)


@given(st.dictionaries(PLACES, ENTRIES, max_size=5))
def test_whatever_comes_is_clean_or_refused(packages: dict[str, Any]) -> None:
    """Cleaning what is clean changes nothing, and everything in it has a hash or came with something that has."""
    try:
        clean = clean_lock({"lockfileVersion": 3, "packages": packages})
    except NotLockableError:
        return
    assert clean_lock(clean) == clean
    text = as_text(clean)
    assert "resolved" not in text
    assert ".." not in text
    entries = [entry for place, entry in clean["packages"].items() if place]
    assert all(entry.get("inBundle") or entry["integrity"].startswith("sha512-") for entry in entries)
    assert parse_lock(npm_lock("1" * 32, text).to_json()) is not None


# npm, as the sandbox sees it


def npm(**settings: Any) -> Npm:
    return Npm(BuildSettings(**settings), Node(program=None, npm=None))  # type: ignore[arg-type]


def test_an_account_is_not_in_an_address() -> None:
    told = npm(registry="https://me:s%40cret@npm.example.org/team").request()["npmrc"]
    assert told == "registry=https://npm.example.org/team/\n//npm.example.org/team/:_auth=bWU6c0BjcmV0\n"
    token = npm(registry="https://:token@npm.example.org:8443/").request()["npmrc"]
    assert token.endswith("//npm.example.org:8443/:_authToken=token\n")
    assert npm().request()["npmrc"] == "registry=https://registry.npmjs.org/\n"


def test_builds_of_node_call_the_registry_and_those_of_python_the_index() -> None:
    settings = BuildSettings("https://pypi.example.org/simple", registry="http://npm.example.org:4873")
    assert [str(host) for host in Npm(settings, None).hosts] == ["npm.example.org:4873"]
    assert [str(host) for host in Uv(settings, None).hosts] == ["pypi.example.org:443"]
    assert npm(registry="none").hosts == ()
    assert "packages_registry=none" in npm(registry="none").missing
    assert "npm is not installed" in npm().missing


@pytest.mark.parametrize(
    ("address", "ours"),
    [
        ("http://npm.example.org:4873/a/-/a-1.0.0.tgz", True),
        ("http://npm.example.org/a/-/a-1.0.0.tgz", False),
        ("http://npm.example.org.evil:4873/a", False),
        ("http://npm.example.org@evil:4873/a", False),
        ("http://npm.example.org:x/a", False),
        ("http://[::1/a", False),
    ],
)
def test_what_is_of_the_registry(address: str, *, ours: bool) -> None:
    tool = npm(registry="http://npm.example.org:4873")
    assert tool._is_ours(address) is ours


def test_a_build_has_room_for_what_node_reserves() -> None:
    """Where memory is limited by process, node from version 24 on would not start otherwise."""
    settings = BuildSettings()
    npm, uv = Npm(settings, None), Uv(settings, None)
    sandbox = BuildSandbox(PlainLauncher(), settings, (npm, uv), threads=1, egress=NoEgress())
    assert sandbox._spec("acme", npm).limits.reserved_bytes == LANGUAGES["node"].reserved_mb << 20
    assert sandbox._spec("acme", uv).limits.reserved_bytes == 0
    sandbox.close()


async def test_an_installer_may_be_missing_for_one_language(tmp_path: Path) -> None:
    told = ToldSandbox()
    shelf = packages(told, tmp_path, unavailable={"node": "npm is not installed"})
    await shelf.lock("acme", Requirements(("a",)))
    with pytest.raises(PackagesMissingError, match="npm is not installed"):
        await shelf.lock("acme", NodeRequirements((("a", "1"),)))
    lock = npm_lock("1" * 32, json.dumps({"packages": {"node_modules/a": {"version": "1", "integrity": "sha512-x"}}}))
    assert shelf.progress("acme", lock) == Progress(State.ABSENT, "npm is not installed")  # what `why` says
    able = packages(told, tmp_path)
    assert (await able.have("acme-x", lock)).site.name == "node_modules"
    assert (await shelf.known("acme", lock)).state is State.READY  # built before: it runs

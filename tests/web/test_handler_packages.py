"""Packages of handlers over HTTP: locked at registration, shown, kept, and what is said when they cannot be had."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import handlers.packages
from tests.support.archives import tar_of
from tests.support.engines import need_language
from tests.support.npm_registry import NpmPackage, need_npm, npm_registry
from tests.support.served_daemon import Reply, Served, served_daemon
from tests.support.service import ended, running_daemon
from tests.support.wheels import asking_for, make_wheel, need_uv

pytestmark = pytest.mark.slow

CODE = "import beta\nreturn beta.VERSION"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    need_uv()
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "beta")
    return folder


@pytest_asyncio.fixture
async def served(tmp_path: Path, wheels: Path) -> AsyncIterator[Served]:
    async with served_daemon(tmp_path / "data", packages_index="none", packages_wheels=str(wheels)) as one:
        yield one


async def put(served: Served, body: str, query: str = "", **fields: object) -> Reply:
    document = json.dumps({"lang": "python", "body": body, **fields}).encode()
    headers = {"Content-Type": "application/json"}
    return await asyncio.to_thread(served.client.ask, "PUT", f"/acme/handler/x{query}", document, headers)


async def ask(served: Served, method: str, path: str, body: object = None) -> Any:
    raw = None if body is None else json.dumps(body).encode()
    reply = await asyncio.to_thread(served.client.ask, method, path, raw, {"Content-Type": "application/json"})
    return json.loads(reply.body)


def versions(answer: Any) -> list[str]:
    return [f"{package['name']} {package['version']}" for package in answer["handler"]["lock"]["packages"]]


async def test_a_handler_keeps_its_lock_until_it_is_told_to_upgrade(served: Served, wheels: Path) -> None:
    text = asking_for("beta", code=CODE)
    tried = await ask(served, "POST", "/acme/handler/x/invoke", {"handler": {"lang": "python", "body": text}})
    assert tried["result"] == '"1.0"'
    await asyncio.to_thread(make_wheel, wheels, "beta", "2.0")
    first = json.loads((await put(served, text)).body)
    assert versions(first) == ["beta 1.0"]  # what was tried is what is saved
    assert first["packages"] == {"state": "ready", "text": ""}
    added = json.loads((await asyncio.to_thread(served.client.add, b"x")).body)["ids"]
    assert (await ended(served.daemon, added[0])).outcome.result == b'"1.0"'  # type: ignore[union-attr]
    same = json.loads((await put(served, text)).body)
    assert same["version"] == first["version"]
    changed = json.loads((await put(served, text + "  # newer", eid="a")).body)
    assert versions(changed) == ["beta 1.0"]
    upgraded = json.loads((await put(served, text, "?upgrade=true")).body)
    assert versions(upgraded) == ["beta 2.0"]
    assert upgraded["version"] > changed["version"]
    shown = await ask(served, "GET", "/acme/handler/x?version=1")
    assert versions(shown) == ["beta 1.0"]
    back = await ask(served, "POST", "/acme/handler/x/rollback", {"version": 1})
    assert versions(back) == ["beta 1.0"]
    again = json.loads((await put(served, text, "", lock=upgraded["handler"]["lock"])).body)
    assert versions(again) == ["beta 2.0"]  # a lock that comes along is taken, if it is of these requirements
    other = json.loads((await put(served, asking_for("beta<2", code=CODE), lock=upgraded["handler"]["lock"])).body)
    assert versions(other) == ["beta 1.0"]


async def test_a_folder_asks_in_a_file(served: Served) -> None:
    files = {"main.py": CODE.encode(), "requirements.txt": b"beta\n"}
    headers = {"Content-Type": "application/gzip"}
    reply = await asyncio.to_thread(served.client.ask, "PUT", "/acme/handler/x", tar_of(files), headers)
    assert versions(json.loads(reply.body)) == ["beta 1.0"]
    ids = json.loads((await asyncio.to_thread(served.client.add, b"x")).body)["ids"]
    assert (await ended(served.daemon, ids[0])).outcome.result == b'"1.0"'  # type: ignore[union-attr]
    files["requirements.txt"] = b"./beta\n"
    refused = await asyncio.to_thread(served.client.ask, "PUT", "/acme/handler/x", tar_of(files), headers)
    assert (refused.status, json.loads(refused.body)["error"]["detail"]["field"]) == (422, "requirements.txt")


async def test_what_cannot_be_had_is_refused_and_nothing_is_saved(served: Served) -> None:
    refused = await put(served, asking_for("beta>=7", code=CODE))
    assert refused.status == 422
    assert "only beta==1.0 is available" in json.loads(refused.body)["error"]["message"]
    plain = await put(served, asking_for("beta @ http://x/y", code=CODE))
    assert plain.status == 422
    assert "addresses, paths and options are not taken" in json.loads(plain.body)["error"]["message"]
    assert (await asyncio.to_thread(served.client.ask, "GET", "/acme/handler/x")).status == 404


@pytest.mark.parametrize(
    ("bound", "words"),
    [("MAX_PACKAGES", "these are 2 packages with all that they need, and 1 is the limit"), ("MAX_LOCK_BYTES", "0 KB")],
)
async def test_a_lock_that_could_not_be_read_again_is_refused_before_it_is_saved(
    served: Served, wheels: Path, monkeypatch: pytest.MonkeyPatch, bound: str, words: str
) -> None:
    await asyncio.to_thread(make_wheel, wheels, "gamma", requires=["beta"])
    monkeypatch.setattr(handlers.packages, bound, 1)
    refused = await put(served, asking_for("gamma", code=CODE))
    error = json.loads(refused.body)["error"]
    assert (refused.status, error["code"]) == (422, "packages_refused")
    assert words in error["message"]
    assert (await asyncio.to_thread(served.client.ask, "GET", "/acme/handler/x")).status == 404


async def test_another_daemon_of_the_store_builds_the_tree_when_a_job_needs_it(served: Served, tmp_path: Path) -> None:
    assert (await put(served, asking_for("beta", code=CODE))).status == 200
    store = f"sqlite:///{tmp_path / 'data' / 'functory.db'}"
    served.daemon.pause()
    wheels = str(tmp_path / "wheels")
    async with running_daemon(
        tmp_path / "second", store=store, packages_index="none", packages_wheels=wheels
    ) as second:
        ids = await second.intake.write("acme-x", [b"x"])
        assert (await ended(second, ids[0])).outcome.result == b'"1.0"'  # type: ignore[union-attr]


async def test_a_daemon_that_cannot_says_so(tmp_path: Path, wheels: Path) -> None:
    data = tmp_path / "data"
    async with served_daemon(data, packages_index="none", packages_wheels=str(wheels)) as one:
        assert (await put(one, asking_for("beta", code=CODE))).status == 200
    async with served_daemon(data, packages="false") as one:  # what is installed still runs
        added = json.loads((await asyncio.to_thread(one.client.add, b"x")).body)["ids"]
        assert (await ended(one.daemon, added[0])).outcome.result == b'"1.0"'  # type: ignore[union-attr]
        refused = await put(one, asking_for("beta>0", code=CODE))
        assert refused.status == 503
        assert "switched packages off" in json.loads(refused.body)["error"]["message"]
    await asyncio.to_thread(shutil.rmtree, data / "packages")
    async with served_daemon(data, packages="false") as one:
        added = json.loads((await asyncio.to_thread(one.client.add, b"x")).body)["ids"]
        why: Any = {}
        async with asyncio.timeout(30):
            while why.get("reason") != "packages_unavailable":
                why = await ask(one, "GET", f"/acme/job/{added[0]}/why")
        assert "switched packages off" in why["text"]


# Node


NODE_FILES = {
    "main.mjs": b"import beta from 'beta';\nexport default () => beta.VERSION;",
    "package.json": b'{"dependencies": {"beta": "^1.0.0"}}',
}
TAR = {"Content-Type": "application/gzip"}


@pytest.fixture
def npm() -> None:
    need_npm()
    need_language("node")


async def put_folder(served: Served, files: dict[str, bytes]) -> Reply:
    return await asyncio.to_thread(served.client.ask, "PUT", "/acme/handler/x", tar_of(files), TAR)


@pytest.mark.usefixtures("npm")
async def test_a_folder_of_node_asks_in_package_json_and_runs_on_every_daemon(tmp_path: Path) -> None:
    async with npm_registry(NpmPackage("beta")) as registry:
        data = tmp_path / "data"
        async with served_daemon(data, packages_registry=registry.url) as one:
            reply = await put_folder(one, NODE_FILES)
            assert versions(json.loads(reply.body)) == ["beta 1.0.0"]
            ids = json.loads((await asyncio.to_thread(one.client.add, b"x")).body)["ids"]
            assert (await ended(one.daemon, ids[0])).outcome.result == b'"1.0.0"'  # type: ignore[union-attr]
            await asyncio.to_thread(registry.add, NpmPackage("beta", "1.1.0"))
            refused = await put_folder(one, {**NODE_FILES, "package.json": b'{"dependencies": {"beta": "file:."}}'})
            assert (refused.status, json.loads(refused.body)["error"]["detail"]["field"]) == (422, "package.json")
            brought = {**NODE_FILES, "node_modules/beta/index.js": b"exports.VERSION = 'own';"}
            assert json.loads((await put_folder(one, brought)).body)["handler"]["lock"] is None
            changed = {**NODE_FILES, "main.mjs": NODE_FILES["main.mjs"] + b"\n"}
            assert versions(json.loads((await put_folder(one, changed)).body)) == ["beta 1.0.0"]
            one.daemon.pause()
            store = f"sqlite:///{data / 'functory.db'}"
            async with running_daemon(tmp_path / "second", store=store, packages_registry=registry.url) as second:
                ids = await second.intake.write("acme-x", [b"x"])
                assert (await ended(second, ids[0])).outcome.result == b'"1.0.0"'  # type: ignore[union-attr]


async def test_without_npm_a_folder_with_packages_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.daemon.packages.find_node", lambda: None)
    async with served_daemon(tmp_path / "data") as one:
        refused = await put_folder(one, NODE_FILES)
        assert refused.status == 503
        assert "npm is not installed on this machine" in json.loads(refused.body)["error"]["message"]
        assert (await put_folder(one, {"main.mjs": b"export default () => 1;"})).status == 200

"""Packages of node handlers in the sandbox that tenants get: what packages may do to a build, and contexts to a tree.
From a registry that the tests serve; with FUNCTORY_REAL_PACKAGES=1 also a real one, from npm's own registry."""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from functory.daemon.packages import way_out
from handlers.hosts import parse_patterns
from handlers.model import Handler
from handlers.npm import as_text, clean_lock
from handlers.packages import Lock, npm_lock, requirements_of
from runner.errors import PackagesMissingError, PackagesRefusedError
from runner.launch import Level
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.sandbox import BuildSandbox
from runner.packages.source import State
from runner.packages.tools import BuildSettings, Npm
from runner.packages.trees import TreeFolder
from runner.runner import Runner
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer
from tests.support.engines import jobs, need_language, run
from tests.support.npm_registry import NpmPackage, NpmRegistry, integrity, need_npm, npm_registry, write_tarballs

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

REAL = pytest.mark.skipif(
    not os.environ.get("FUNCTORY_REAL_PACKAGES"),
    reason="real packages: set FUNCTORY_REAL_PACKAGES=1 where npm's registry answers",
)
COMMONJS = """
const alpha = require('alpha');
exports.handler = () => [alpha.VERSION, alpha.beta, require('@some/scoped').VERSION, require('b').VERSION,
  require('bundler').VERSION, require('modern').WORD, require.resolve('beta')];
"""
MODULE = """
import alpha from 'alpha';
import scoped from '@some/scoped';
import b from 'b';
import bundler from 'bundler';
import { WORD } from 'modern';
export default () => [alpha.VERSION, alpha.beta, scoped.VERSION, b.VERSION, bundler.VERSION, WORD];
"""
BETA = "exports.handler = () => require('beta').VERSION;"
WANTED = {"alpha": "^1.0.0", "@some/scoped": "", "b": "npm:beta@2", "bundler": "1", "modern": "latest"}
TRACE = "require('fs').writeFileSync('installed', 'x')"
PACKAGES = (
    NpmPackage(
        "alpha",
        files={"index.js": "exports.VERSION = '1.0.0';\nexports.beta = require('beta').VERSION;"},
        fields={"dependencies": {"beta": "^1.0.0"}, "bin": {"alpha": "index.js"}},
    ),
    NpmPackage("beta"),
    NpmPackage("beta", "1.1.0"),
    NpmPackage("beta", "2.0.0"),
    NpmPackage("@some/scoped"),
    NpmPackage(
        "modern",
        files={"index.mjs": "export const WORD = 'modern';", "index.js": "exports.WORD = 'old';"},
        fields={"exports": {"import": "./index.mjs", "require": "./index.js"}},
    ),
    NpmPackage(
        "bundler",
        files={
            "index.js": "exports.VERSION = require('inner').VERSION;",
            "node_modules/inner/index.js": "exports.VERSION = 'bundled';",
            "node_modules/inner/package.json": '{"name": "inner", "version": "3.0.0"}',
        },
        fields={"dependencies": {"inner": "3"}, "bundleDependencies": ["inner"]},
    ),
    NpmPackage("linked", links={"passwd": "/etc/passwd", "up": "../../.."}),
    NpmPackage("climber", files={"index.js": "", "../../../climbed.js": "x", "/tmp/climbed.js": "x"}),  # noqa: S108
    NpmPackage("scripted", fields={"scripts": {"install": f'node -e "{TRACE}"'}}),
    NpmPackage("by-git", fields={"dependencies": {"beta": "git+https://example.org/beta.git"}}),
    NpmPackage("wants-beta-seven", fields={"dependencies": {"beta": ">=7"}}),
    NpmPackage("big", files={"index.js": f"exports.DATA = '{'x' * 5_000_000}';"}),
)


class Folders:
    """Implements `runner.trees.TreeSource`."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def add(self, tree: str, files: dict[str, str], tenant: str) -> None:
        for name, text in files.items():
            path = self._base / f"{tenant}.{tree}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    async def have(self, tenant: str, tree: str) -> Path:
        return self._base / f"{tenant}.{tree}"


class Bench:
    """A runner with packages from a registry."""

    def __init__(self, folder: Path, launcher: SandboxLauncher, settings: BuildSettings) -> None:
        self.root = folder / "packages"
        self.level = launcher.level
        tools = [Npm(settings, need_npm())]
        sandbox = BuildSandbox(launcher, settings, tools, threads=3, egress=way_out(tools))
        self.packages = Packages(sandbox, TreeFolder(self.root), ProviderSettings(tree_bytes=settings.tree_bytes))
        self.folders = Folders(folder / "folders")
        self.runner = Runner(launcher, packages=self.packages, trees=self.folders)
        self._numbers = itertools.count()
        self.steps: list[str] = []

    async def lock(self, tenant: str = "acme", package_lock: str = "", **dependencies: str) -> Lock:
        files = {"package.json": json.dumps({"dependencies": dependencies}).encode()}
        if package_lock:
            files["package-lock.json"] = package_lock.encode()
        wanted = requirements_of("node", "", files)
        assert wanted is not None
        return await self.packages.lock(tenant, wanted, tell=self.steps.append)

    async def handler(self, entry: str, body: str, *, tenant: str = "acme", **dependencies: str) -> Handler:
        """Locked and installed."""
        lock = await self.lock(tenant, **dependencies)
        await self.packages.have(f"{tenant}-test", lock, self.steps.append)
        tree = f"{next(self._numbers):064x}"
        await asyncio.to_thread(self.folders.add, tree, {entry: body}, tenant)
        return Handler("node", body, lock=lock, entry=entry, tree=tree)

    async def result(self, handler: Handler, tenant: str = "acme") -> Any:
        stopped = (await run(self.runner, handler, jobs("x"), f"{tenant}-test")).stopped[0]
        assert stopped.exitcode == 200, stopped.result
        return json.loads(stopped.result)

    async def left(self) -> list[Path]:
        """What builds left that are over."""
        return await asyncio.to_thread(lambda: list(self.root.glob("*/.building*")))


@pytest.fixture(scope="module", autouse=True)
def node() -> None:
    """Looked for once, and not on the event loop."""
    need_npm()
    need_language("node")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry() -> AsyncIterator[NpmRegistry]:
    async with npm_registry(*PACKAGES) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(
    tmp_path_factory: pytest.TempPathFactory, launcher: SandboxLauncher, registry: NpmRegistry
) -> AsyncIterator[Bench]:
    settings = BuildSettings(registry=registry.url, tree_bytes=4 << 20)
    made = Bench(tmp_path_factory.mktemp("data"), launcher, settings)
    await made.packages.open()
    yield made
    await made.packages.close()


async def test_both_kinds_of_import_find_packages(bench: Bench) -> None:
    handler = await bench.handler("main.js", COMMONJS, **WANTED)
    assert handler.lock is not None
    assert bench.steps[0] == "resolving"
    assert any(step.startswith("fetched ") for step in bench.steps), bench.steps
    named = [package[:2] for package in handler.lock.packages]
    assert named == [
        ("@some/scoped", "1.0.0"),
        ("alpha", "1.0.0"),
        ("beta", "1.1.0"),
        ("beta", "2.0.0"),
        ("bundler", "1.0.0"),
        ("inner", "3.0.0"),
        ("modern", "1.0.0"),
    ]
    assert all(each.startswith("sha512-") for package in handler.lock.packages for each in package.hashes)
    *found, place = await bench.result(handler)
    assert found == ["1.0.0", "1.1.0", "1.0.0", "2.0.0", "bundled", "old"]
    if bench.level >= Level.L2:
        assert place == "/functory/node_modules/beta/index.js"
    module = await bench.handler("main.mjs", MODULE, **WANTED)
    assert await bench.result(module) == ["1.0.0", "1.1.0", "1.0.0", "2.0.0", "bundled", "modern"]
    without = replace(handler, lock=None)
    assert b"Cannot find module 'alpha'" in (await run(bench.runner, without, jobs("x"))).stopped[0].result
    assert await bench.left() == []


async def test_both_kinds_of_import_find_packages_without_a_root_of_their_own(
    tmp_path: Path, machine: frozenset[Layer], registry: NpmRegistry
) -> None:
    launcher = SandboxLauncher(machine - {Layer.NAMESPACES})
    await launcher.start()
    bench = Bench(tmp_path, launcher, BuildSettings(registry=registry.url))
    try:
        found = await bench.result(await bench.handler("main.js", COMMONJS, **WANTED))
        assert found[:-1] == ["1.0.0", "1.1.0", "1.0.0", "2.0.0", "bundled", "old"]
        found = await bench.result(await bench.handler("main.mjs", MODULE, **WANTED))
        assert found == ["1.0.0", "1.1.0", "1.0.0", "2.0.0", "bundled", "modern"]
    finally:
        await bench.packages.close()
        await launcher.close()


async def test_a_tree_cannot_be_written_and_no_others_can_be_seen(bench: Bench) -> None:
    await bench.handler("main.js", BETA, tenant="other", beta="1")
    code = (
        f"const FOLDERS = {json.dumps([str(bench.root), str(bench.root / 'other')])};"
        """
const fs = require('fs'), path = require('path');
exports.handler = () => {
  const file = require.resolve('beta'), tree = path.dirname(path.dirname(file));
  let refused = 0;
  for (const act of [() => fs.appendFileSync(file, 'x'), () => fs.writeFileSync(tree + '/new.js', 'x'),
      () => fs.unlinkSync(file), () => fs.renameSync(tree + '/beta', tree + '/c'),
      () => fs.symlinkSync('/etc', tree + '/etc')]) {
    try { act(); } catch { refused++; }
  }
  const seen = [];
  for (const folder of FOLDERS) try { seen.push(...fs.readdirSync(folder)); } catch {}
  return [refused, fs.readdirSync(tree).sort(), seen];
};
"""
    )
    refused, names, seen = await bench.result(await bench.handler("main.js", code, **WANTED))
    assert (refused, names, seen) == (5, ["@some", "alpha", "b", "beta", "bundler", "modern"], [])


async def test_links_paths_and_scripts_lead_nowhere(bench: Bench) -> None:
    lock = await bench.lock(linked="1", climber="1", scripted="1", alpha="1")
    tree = await bench.packages.have("acme-x", lock)
    progress = bench.packages.progress("acme", lock)
    assert progress.state is State.READY
    assert "the install scripts of scripted were not run" in progress.text

    def look() -> None:
        assert not [path for path in tree.folder.rglob("*") if path.is_symlink()]
        assert not list(tree.site.glob(".*")), "neither .bin nor npm's own notes"
        strays = list(bench.root.parent.rglob("climbed.js"))
        assert all(path.is_relative_to(tree.site / "climber") for path in strays)
        assert not Path("/tmp/climbed.js").exists()  # noqa: S108
        assert not list(bench.root.rglob("installed"))

    await asyncio.to_thread(look)


@pytest.mark.parametrize(
    ("name", "wanted", "told"),
    [
        ("nowhere-to-be-found", "*", "nowhere-to-be-found"),
        ("wants-beta-seven", "*", "No matching version found for beta@>=7"),
        ("by-git", "*", "beta|git"),
    ],
)
async def test_what_cannot_be_had_is_said(bench: Bench, name: str, wanted: str, told: str) -> None:
    with pytest.raises(PackagesRefusedError, match=told):
        await bench.lock(**{name: wanted})
    assert await bench.left() == []


async def test_a_package_that_differs_from_its_hash_is_refused(bench: Bench) -> None:
    lock = await bench.lock(**WANTED)
    beta = next(package for package in lock.packages if package[:2] == ("beta", "1.1.0"))
    other = lock.npm.replace(beta.hashes[0], "sha512-" + "B" * 86 + "==")
    with pytest.raises(PackagesRefusedError, match=r"(?s)beta 1\.1\.0 is not the package.*checksum failed"):
        await bench.packages.have("acme-x", npm_lock(lock.requirements, other))
    assert await bench.left() == []


async def test_what_claims_to_come_with_another_package_and_does_not_is_not_fetched(
    bench: Bench, registry: NpmRegistry
) -> None:
    """It would have no hash."""
    lock = await bench.lock(alpha="^1.0.0")
    document = json.loads(lock.npm)
    del document["packages"]["node_modules/beta"]
    document["packages"]["node_modules/alpha/node_modules/beta"] = {"version": "1.0.0", "inBundle": True}
    forged = npm_lock(lock.requirements, as_text(clean_lock(document)))
    with pytest.raises(PackagesRefusedError, match=r"alpha/node_modules/beta 1\.0\.0 is not what was locked"):
        await bench.packages.have("acme-x", forged)
    document["packages"]["node_modules/alpha"]["bundleDependencies"] = ["beta"]
    registry.called.clear()
    tree = await bench.packages.have("acme-x", npm_lock(lock.requirements, as_text(clean_lock(document))))
    assert not await asyncio.to_thread((tree.site / "alpha" / "node_modules").exists)
    assert registry.called == ["alpha", "alpha/-/alpha-1.0.0.tgz"]


async def test_a_lock_that_comes_along_is_kept_to(bench: Bench) -> None:
    beta = {"version": "1.0.0", "integrity": integrity(NpmPackage("beta").tarball())}
    own = {"lockfileVersion": 3, "packages": {"": {"dependencies": {"beta": "^1.0.0"}}, "node_modules/beta": beta}}
    kept = await bench.lock(package_lock=json.dumps(own), beta="^1.0.0")
    assert [package[:2] for package in kept.packages] == [("beta", "1.0.0")]


async def test_packages_have_a_limit_of_size(bench: Bench) -> None:
    with pytest.raises(PackagesRefusedError, match="limit"):
        await bench.packages.have("acme-x", await bench.lock(big="1"))
    assert await bench.left() == []


async def test_a_registry_that_does_not_answer_is_nobodys_fault(tmp_path: Path, launcher: SandboxLauncher) -> None:
    bench = Bench(tmp_path, launcher, BuildSettings(registry="http://someone:hidden@127.0.0.1:9/npm", timeout_s=60))
    with pytest.raises(PackagesMissingError, match="the index of packages does not answer") as told:
        await bench.lock(beta="1")
    assert "hidden" not in str(told.value)
    await bench.packages.close()


async def test_a_build_reaches_its_registry_with_its_account_and_nothing_else(
    tmp_path: Path, launcher: SandboxLauncher, registry: NpmRegistry
) -> None:
    """Where contexts have a network of their own. A file that the registry has elsewhere is not fetched."""
    async with npm_registry(NpmPackage("gamma")) as own:
        own.elsewhere["gamma"] = registry
        settings = BuildSettings(registry=own.url.replace("//", "//someone:secret@"), timeout_s=60)
        bench = Bench(tmp_path, launcher, settings)
        if bench.level < Level.L2:
            pytest.skip("builds have the network of the machine here")
        before = len(registry.called)
        with pytest.raises((PackagesMissingError, PackagesRefusedError), match=r"gamma|packages_hosts"):
            await bench.packages.have("acme-x", await bench.lock(gamma="1"))
        await bench.packages.close()
        assert set(own.accounts) == {"Basic c29tZW9uZTpzZWNyZXQ="}
        assert len(registry.called) == before
        registry.add(NpmPackage("gamma"))
        bench = Bench(tmp_path, launcher, replace(settings, hosts=parse_patterns(f"127.0.0.1:{registry.port}")))
        found = await bench.result(await bench.handler("main.js", BETA.replace("beta", "gamma"), gamma="1"))
        assert found == "1.0.0"
        await bench.packages.close()


async def test_a_folder_of_tarballs_gives_the_lock_that_a_registry_gives(
    tmp_path: Path, launcher: SandboxLauncher, bench: Bench
) -> None:
    folder = tmp_path / "tarballs"
    await asyncio.to_thread(write_tarballs, folder, *PACKAGES)
    await asyncio.to_thread(folder.chmod, 0o755)
    offline = Bench(tmp_path, launcher, BuildSettings(registry="none", tarballs=folder, tree_bytes=4 << 20))
    handler = await offline.handler("main.js", COMMONJS, **WANTED)
    assert handler.lock == await bench.lock(**WANTED)
    assert (await offline.result(handler))[:-1] == ["1.0.0", "1.1.0", "1.0.0", "2.0.0", "bundled", "old"]
    with pytest.raises(PackagesRefusedError, match="gone is not in the folder of tarballs"):
        await offline.lock(gone="1")
    if offline.level >= Level.L2:  # elsewhere it is a copy, because others may not reach the folder of this test
        lock = await offline.lock(beta="2")
        await asyncio.to_thread(write_tarballs, folder, NpmPackage("beta", "2.0.0", files={"index.js": "changed"}))
        with pytest.raises(PackagesRefusedError, match=r"beta 2\.0\.0 is not the package that was locked"):
            await offline.packages.have("acme-x", lock)
    await offline.packages.close()


async def test_tarballs_are_found_without_a_network_of_ones_own(tmp_path: Path, machine: frozenset[Layer]) -> None:
    folder = tmp_path / "tarballs"
    await asyncio.to_thread(write_tarballs, folder, NpmPackage("beta"))
    launcher = SandboxLauncher(machine - {Layer.NAMESPACES})
    await launcher.start()
    offline = Bench(tmp_path, launcher, BuildSettings(tarballs=folder))
    try:
        assert await offline.result(await offline.handler("main.js", BETA, beta="1")) == "1.0.0"
    finally:
        await offline.packages.close()
        await launcher.close()


@REAL
async def test_a_real_package(tmp_path: Path, launcher: SandboxLauncher) -> None:
    bench = Bench(tmp_path, launcher, BuildSettings())
    code = "import _ from 'lodash';\nimport express from 'express';\n"
    code += "export default () => [_.chunk([1, 2, 3], 2), typeof express()];"
    handler = await bench.handler("main.mjs", code, lodash="^4.17.0", express="^4.0.0")
    assert await bench.result(handler) == [[[1, 2], [3]], "function"]
    with pytest.raises(PackagesRefusedError, match="functory-has-no-such-package"):
        await bench.lock(**{"functory-has-no-such-package": "*"})
    await bench.packages.close()

"""Packages in the sandbox that tenants get: what wheels may do to a build, and contexts to a tree. From a folder of
wheels that the tests make; with FUNCTORY_REAL_PACKAGES=1 also real ones, from the index that uv finds."""

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import runner.packages.trees
from functory.daemon.packages import way_out
from handlers.hosts import parse_patterns
from handlers.model import Handler
from handlers.packages import Lock, requirements_in
from runner.errors import PackagesMissingError, PackagesRefusedError
from runner.launch import Level
from runner.packages.provider import Packages, ProviderSettings
from runner.packages.sandbox import BuildSandbox
from runner.packages.tools import About, BuildSettings, Uv
from runner.packages.trees import TreeFolder
from runner.runner import Runner
from runner.sandbox.launcher import SandboxLauncher
from tests.support.engines import jobs, run
from tests.support.package_index import package_index
from tests.support.wheels import asking_for, make_sdist, make_wheel, need_uv

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

REAL = pytest.mark.skipif(
    not os.environ.get("FUNCTORY_REAL_PACKAGES"),
    reason="real packages: set FUNCTORY_REAL_PACKAGES=1 where an index answers",
)


class Bench:
    """A runner with packages, from a folder of wheels."""

    def __init__(self, folder: Path, launcher: SandboxLauncher, settings: BuildSettings) -> None:
        self.root = folder / "packages"
        self.level = launcher.level
        self.steps: list[str] = []
        tools = [Uv(settings, need_uv())]
        sandbox = BuildSandbox(launcher, settings, tools, threads=3, egress=way_out(tools))
        self.packages = Packages(sandbox, TreeFolder(self.root), ProviderSettings(tree_bytes=settings.tree_bytes))
        self.runner = Runner(launcher, packages=self.packages)

    async def handler(self, *dependencies: str, code: str = "return 1", tenant: str = "acme") -> Handler:
        """Locked and installed."""
        text = asking_for(*dependencies, code=code)
        wanted = requirements_in(text)
        assert wanted is not None
        self.steps.clear()
        lock = await self.packages.lock(tenant, wanted, tell=self.steps.append)
        await self.packages.have(f"{tenant}-test", lock, self.steps.append)
        return Handler("python", text, lock=lock)

    async def result(self, handler: Handler, tenant: str = "acme") -> Any:
        stopped = (await run(self.runner, handler, jobs("x"), f"{tenant}-test")).stopped[0]
        assert stopped.exitcode == 200, stopped.result
        return json.loads(stopped.result)

    async def left(self) -> list[Path]:
        """What builds left that are over."""
        return await asyncio.to_thread(lambda: list(self.root.glob("*/.building*")))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_uv()
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "alpha", requires=["beta>=1"])
    make_wheel(folder, "beta")
    make_wheel(folder, "handler")
    make_wheel(folder, "linked", files={"linked.py": ""}, links={"linked_passwd": "/etc/passwd", "linked_up": "../.."})
    make_wheel(folder, "climber", files={"climber.py": "", "../../climbed.py": "x", "/tmp/climbed.py": "x"})  # noqa: S108
    make_wheel(folder, "alien", tag="cp27-cp27m-win32")
    make_wheel(folder, "asks-for-beta-two", requires=["beta>=2"])
    make_wheel(folder, "points-elsewhere", requires=["beta @ http://127.0.0.1:9/beta-1.0-py3-none-any.whl"])
    make_wheel(folder, "big", files={"big.py": f"DATA = '{'x' * 3_000_000}'\n"})
    make_wheel(folder, "json", files={"json.py": "hijacked = True\n"})
    make_wheel(folder, "hangs", files={"hangs.py": "import os\nos._exit(3)\n"})
    make_sdist(folder, "needsbuild", folder / "built")
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(
    tmp_path_factory: pytest.TempPathFactory, launcher: SandboxLauncher, wheels: Path
) -> AsyncIterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("data"), launcher, BuildSettings("none", wheels, tree_bytes=4 << 20))
    await made.packages.open()
    yield made
    await made.packages.close()


async def test_a_handler_has_its_packages_and_no_others(bench: Bench) -> None:
    look = "import alpha, beta, sys\nreturn [alpha.VERSION, beta.__file__, sys.path[-1], sys.argv[1:]]"
    handler = await bench.handler("alpha", code=look)
    assert handler.lock is not None
    assert [package[:2] for package in handler.lock.packages] == [("alpha", "1.0"), ("beta", "1.0")]
    assert bench.steps[0] == "resolving"
    assert "installing" in bench.steps
    assert bench.steps[-1] in ("installed beta 1.0", "compiling"), bench.steps
    version, file, path, arguments = await bench.result(handler)
    assert version == "1.0"
    assert file == f"{path}/beta.py"
    assert arguments == []
    without = await run(bench.runner, Handler("python", "import alpha"), jobs("x"))
    assert b"ModuleNotFoundError" in without.stopped[0].result
    assert await bench.left() == []


async def test_a_tree_cannot_be_written_and_no_others_can_be_seen(bench: Bench) -> None:
    other = await bench.handler("beta", tenant="other")
    code = (
        f"FOLDERS = {[str(bench.root), str(bench.root / 'other')]}"
        """
import alpha, os, sys
tree = os.path.dirname(alpha.__file__)
troubles = []
for act in (lambda: open(alpha.__file__, "a"), lambda: open(tree + "/new.py", "w"), lambda: os.remove(alpha.__file__),
            lambda: os.chmod(alpha.__file__, 0o666), lambda: os.rename(tree + "/beta.py", tree + "/c.py"),
            lambda: os.symlink("/etc", tree + "/etc")):
    try:
        act()
    except OSError as error:
        troubles.append(type(error).__name__)
seen = []
for folder in FOLDERS:
    try:
        seen += os.listdir(folder)
    except OSError:
        pass
return [len(troubles), sorted(name for name in os.listdir(tree) if name.endswith(".py")), seen]
"""
    )
    handler = await bench.handler("alpha", code=code)
    refused, names, seen = await bench.result(handler)
    # Without namespaces a context may have the uid of the daemon's: its mode is changed then, and nothing in it.
    assert refused == 6 or (bench.level < Level.L2 and refused == 5)
    assert (names, seen) == (["alpha.py", "beta.py"], [])
    assert (await bench.result(replace(other, body="import beta\nreturn beta.VERSION"), "other")) == "1.0"


async def test_spawners_of_trees_are_few_and_those_in_use_stay(
    bench: Bench, launcher: SandboxLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.sandbox.launcher._PACKAGED_SPAWNERS", 2)
    code = "import os\nreturn os.getpid()"
    for number in range(3):
        handler = await bench.handler("beta", code=code, tenant=f"many{number}")
        assert await bench.result(handler, f"many{number}")
    packaged = {view.packages for view in launcher._spawners if view.packages is not None}
    warm = await bench.handler("beta", code=code, tenant="many0")
    assert await bench.result(warm, "many0")  # its context was alive all the time, so its spawner is there
    assert len(packaged) >= 3  # all have a warm context
    for number in range(3):
        await bench.runner.end_tenant(f"many{number}")
    handler = await bench.handler("beta", code=code, tenant="another")
    assert await bench.result(handler, "another")
    assert len([view for view in launcher._spawners if view.packages is not None]) < len(packaged) + 1


async def test_the_standard_library_comes_first(bench: Bench) -> None:
    handler = await bench.handler("json", code="import json\nreturn hasattr(json, 'hijacked')")
    assert await bench.result(handler) is False


async def test_links_and_paths_in_wheels_lead_nowhere(bench: Bench) -> None:
    handler = await bench.handler("linked", "climber")
    assert handler.lock is not None
    tree = await bench.packages.have("acme-x", handler.lock)

    def look() -> None:
        assert not [path for path in tree.folder.rglob("*") if path.is_symlink()]
        assert sorted(path.name for path in tree.site.glob("*.py")) == ["climber.py", "linked.py"]
        assert not list(bench.root.parent.rglob("climbed.py"))
        assert not Path("/tmp/climbed.py").exists()  # noqa: S108

    await asyncio.to_thread(look)


@pytest.mark.parametrize(
    ("dependency", "told"),
    [
        ("nowhere-to-be-found", "nowhere-to-be-found was not found"),
        ("beta>=7", "only beta==1.0 is available"),
        ("alien", "alien==1.0 has no wheels"),
        ("needsbuild", "needsbuild==1.0 has no usable wheels"),
        ("asks-for-beta-two", "beta"),
        ("points-elsewhere", "beta"),
    ],
)
async def test_what_cannot_be_had_is_said(bench: Bench, wheels: Path, dependency: str, told: str) -> None:
    with pytest.raises(PackagesRefusedError, match=told):
        await bench.handler(dependency)
    assert not await asyncio.to_thread((wheels / "built").exists)
    assert await bench.left() == []


async def test_a_package_may_have_any_name(bench: Bench) -> None:
    handler = await bench.handler("handler", "beta", code="import beta, handler as named\nreturn named.VERSION")
    assert handler.lock is not None
    assert [package.name for package in handler.lock.packages] == ["beta", "handler"]
    assert await bench.result(handler) == "1.0"
    with pytest.raises(
        PackagesRefusedError, match=r"only handler==1\.0 is available and handler depends on handler>=7"
    ):
        await bench.handler("handler>=7")


async def test_a_disk_that_is_full_is_nobodys_fault(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere/of/this/machine")

    monkeypatch.setattr(runner.packages.trees, "_sync", full)
    with pytest.raises(PackagesMissingError, match=r"cannot be stored on this machine: No space left on device$"):
        await bench.handler("beta", tenant="full")
    assert await bench.left() == []


async def test_a_package_that_is_not_what_was_locked_is_refused(bench: Bench) -> None:
    handler = await bench.handler("beta")
    assert handler.lock is not None
    other = handler.lock.packages[0]._replace(hashes=("sha256:" + "0" * 64,))
    with pytest.raises(PackagesRefusedError, match=r"(?s)[Hh]ash.*beta"):
        await bench.packages.have("acme-x", Lock(handler.lock.requirements, "3.11", (other,)))
    assert await bench.left() == []


async def test_packages_have_a_limit_of_size(bench: Bench) -> None:
    with pytest.raises(PackagesRefusedError, match="limit"):
        await bench.handler("big")
    assert await bench.left() == []


async def test_a_package_that_ends_its_context_costs_its_own_jobs(bench: Bench) -> None:
    handler = await bench.handler("hangs", code="import hangs")
    stopped = (await run(bench.runner, handler, jobs("x"))).stopped
    assert stopped[0].exitcode >= 500
    assert await bench.result(await bench.handler("beta", code="import beta\nreturn beta.VERSION")) == "1.0"


async def test_a_build_that_takes_too_long_is_ended(tmp_path: Path, launcher: SandboxLauncher, wheels: Path) -> None:
    bench = Bench(tmp_path, launcher, BuildSettings("none", wheels, timeout_s=0.01))
    wanted = requirements_in(asking_for("beta", code=""))
    assert wanted is not None
    sandbox = bench.packages._sandbox
    with pytest.raises(PackagesRefusedError, match=r"took longer than 0\.01 s"):
        await sandbox.resolve("acme", wanted, About("3.11.7", ""), lambda _: None)
    await bench.packages.close()


@pytest.mark.usefixtures("wheels")
async def test_an_index_that_does_not_answer_is_nobodys_fault(tmp_path: Path, launcher: SandboxLauncher) -> None:
    settings = BuildSettings("http://someone:hidden@127.0.0.1:9/simple", timeout_s=60)
    bench = Bench(tmp_path, launcher, settings)
    with pytest.raises(PackagesMissingError, match="the index of packages does not answer") as told:
        await bench.handler("beta")
    assert "hidden" not in str(told.value) + str(bench.steps)
    await bench.packages.close()


async def test_a_build_reaches_its_index_and_nothing_else(
    tmp_path: Path, launcher: SandboxLauncher, wheels: Path
) -> None:
    """Where contexts have a network of their own. A file that the index has elsewhere is not fetched."""
    async with package_index(wheels) as other, package_index(wheels) as index:
        index.elsewhere["beta"] = other
        settings = BuildSettings(index.url, timeout_s=60)
        bench = Bench(tmp_path, launcher, settings)
        if bench.level < Level.L2:
            pytest.skip("builds have the network of the machine here")
        assert await bench.result(await bench.handler("big", code="import big\nreturn len(big.DATA)")) == 3_000_000
        with pytest.raises(PackagesMissingError, match=r"is in the operator's `packages_hosts`, but not at port"):
            await bench.handler("beta")
        await bench.packages.close()
        assert "/simple/beta/" in index.called
        assert other.called == []
        bench = Bench(tmp_path, launcher, replace(settings, hosts=parse_patterns(f"127.0.0.1:{other.port}")))
        assert await bench.result(await bench.handler("beta", code="import beta\nreturn beta.VERSION")) == "1.0"
        await bench.packages.close()


# Real packages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(tmp_path_factory: pytest.TempPathFactory, launcher: SandboxLauncher) -> AsyncIterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("real"), launcher, BuildSettings())
    yield made
    await made.packages.close()


@REAL
async def test_real_packages(real: Bench) -> None:
    code = """
import io, certifi, numpy, requests
from PIL import Image
picture = io.BytesIO()
Image.new("RGB", (64, 64)).save(picture, "PNG")
small = Image.open(picture); small.thumbnail((16, 16))
return [requests.__name__, "BEGIN CERTIFICATE" in open(certifi.where()).read(), int(numpy.arange(5).sum()), small.size]
"""
    handler = await real.handler("requests", "numpy", "pillow", code=code)
    assert await real.result(handler) == ["requests", True, 10, [16, 16]]


@REAL
async def test_real_packages_that_cannot_be_had(real: Bench) -> None:
    with pytest.raises(PackagesRefusedError, match="was not found in the package registry"):
        await real.handler("functory-has-no-such-package")
    with pytest.raises(PackagesRefusedError, match="urllib3"):
        await real.handler("requests==2.31.0", "urllib3<1.21")

"""Trees of packages that several processes make, and the collection of those that no version refers to."""

import asyncio
from pathlib import Path

import pytest

from functory.daemon.package_collector import PackageCollector
from functory.execution.handler_document import encode_handler
from handlers.model import Handler
from handlers.packages import Lock, LockedPackage
from runner.errors import PackagesMissingError
from runner.packages.source import State
from runner.packages.tools import About
from store.base import NewHandler, Tenant
from store.url import open_store
from tests.support.told_sandbox import HASH, ToldSandbox, packages, until

LOCK = Lock("1" * 32, "3.11", (LockedPackage("requests", "2.31.0", (HASH,)),))


@pytest.fixture
def told() -> ToldSandbox:
    return ToldSandbox()


def lock_of(number: int) -> Lock:
    return Lock("1" * 32, "3.11", (LockedPackage("a", str(number), (HASH,)),))


async def test_two_processes_that_build_the_same_have_one_tree(told: ToldSandbox, tmp_path: Path) -> None:
    """Two would count twice against the quota, for as long as a version refers to them."""
    other = ToldSandbox()
    told.gate.clear()
    slow = asyncio.create_task(packages(told, tmp_path).have("acme-x", LOCK))
    await until(lambda: told.now > 0)
    first = await packages(other, tmp_path).have("acme-x", LOCK)
    told.gate.set()
    assert await slow == first
    folders = await asyncio.to_thread(lambda: [path.name for path in (tmp_path / "acme").iterdir()])
    assert folders == [first.folder.name]


async def test_what_another_process_has_built_meanwhile_needs_no_room(told: ToldSandbox, tmp_path: Path) -> None:
    """Its quota is used up by that very tree."""
    shelf = packages(told, tmp_path, quota=10, tree_bytes=10)
    turn = shelf._turn("acme", lambda _: None)
    await turn.__aenter__()
    waiting = asyncio.create_task(shelf.have("acme-x", LOCK))
    await until(lambda: shelf.progress("acme", LOCK).text == "waiting for its turn")
    first = await packages(ToldSandbox(), tmp_path).have("acme-x", LOCK)
    await turn.__aexit__(None, None, None)
    assert await waiting == first


async def test_what_no_version_refers_to_is_collected(
    told: ToldSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.handler_rules.VERSIONS_KEPT", 1)
    shelf = packages(told, tmp_path / "packages")
    store = f"sqlite:///{tmp_path / 'functory.db'}"
    async with open_store(store) as kept:
        await kept.create_tenant(Tenant("acme", 1))
        collector = PackageCollector(kept, shelf)

        async def save(lock: Lock) -> None:
            handler = Handler("python", "return 1", lock=lock)
            await kept.set_handler("acme", NewHandler("acme-x", "python", encode_handler(handler), 1))

        await shelf.have("acme-x", LOCK)
        await shelf.have("acme-x", lock_of(2))
        await shelf.have("gone-x", LOCK)
        await save(LOCK)
        await collector.collect_of("acme", -1.0)
        assert (await shelf.known("acme", LOCK)).state is State.READY
        assert (await shelf.known("acme", lock_of(2))).state is State.ABSENT
        await shelf.have("acme-x", lock_of(5))
        await collector.collect_packages()  # what was used a moment ago stays
        assert (await shelf.known("acme", lock_of(5))).state is State.READY
        assert await shelf.tenants() == ["acme"]  # and of a tenant that is gone nothing does
        await kept.delete_handler("acme", "acme-x")
        await collector.collect_of("acme", -1.0)  # a version of a deleted handler can be rolled back to
        assert (await shelf.known("acme", LOCK)).state is State.READY
        await save(lock_of(3))
        await collector.collect_of("acme", -1.0)
        assert (await shelf.known("acme", LOCK)).state is State.ABSENT


async def test_a_daemon_whose_installer_is_gone_collects_nothing_and_goes_on(
    told: ToldSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which lock a tree is of depends on the version of python or node, and that one does not start any more."""
    await packages(told, tmp_path / "packages").have("acme-x", LOCK)

    async def about(lang: str) -> About:
        raise PackagesMissingError(f"{lang}: the build sandbox does not start")

    monkeypatch.setattr(told, "about", about)
    async with open_store(f"sqlite:///{tmp_path / 'functory.db'}") as kept:
        await kept.create_tenant(Tenant("acme", 1))
        document = encode_handler(Handler("python", "return 1", lock=lock_of(2)))
        await kept.set_handler("acme", NewHandler("acme-x", "python", document, 1))
        shelf = packages(told, tmp_path / "packages")
        await PackageCollector(kept, shelf).collect_of("acme", -1.0)
        assert len(await shelf.unused("acme", -1.0)) == 1


async def test_what_is_no_tenants_is_left_alone(told: ToldSandbox, tmp_path: Path) -> None:
    """The folder may be a volume of its own."""
    shelf = packages(told, tmp_path / "packages")
    await asyncio.to_thread((tmp_path / "packages" / "lost+found").mkdir, parents=True)
    async with open_store(f"sqlite:///{tmp_path / 'functory.db'}") as kept:
        await PackageCollector(kept, shelf).collect_packages()
    assert await asyncio.to_thread((tmp_path / "packages" / "lost+found").is_dir)


async def test_a_full_quota_is_collected_first(told: ToldSandbox, tmp_path: Path) -> None:
    shelf = packages(told, tmp_path, quota=15, tree_bytes=12)
    await shelf.have("acme-x", LOCK)

    async def collect(tenant: str) -> None:
        for tree, _ in await shelf.unused(tenant, -1.0):
            await shelf.drop(tree)

    shelf.when_full(collect)
    await shelf.have("acme-x", lock_of(2))
    assert (await shelf.known("acme", LOCK)).state is State.ABSENT


async def test_a_tree_that_another_process_collected_is_built_again(told: ToldSandbox, tmp_path: Path) -> None:
    shelf = packages(told, tmp_path)
    first = await shelf.have("acme-x", LOCK)
    await packages(told, tmp_path).drop(first)
    second = await shelf.have("acme-x", LOCK)
    assert second.folder != first.folder
    assert await asyncio.to_thread((second.site / "a.py").exists)

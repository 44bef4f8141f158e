"""Folders of the store on the disk: whole or not there, made once, compared at first use, and gone when not needed."""

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.folders import unpacked
from functory.folders.collecting import GRACE_MS, FolderCollector
from functory.folders.contents import put_manifest, put_pieces, read_pieces
from functory.folders.packing import tar_pieces
from functory.folders.unpacked import GONE_S, UNUSED_S, UnpackedTrees
from handlers.folders.archive import list_archive
from handlers.folders.limits import DEFAULT_LIMITS, PIECE_BYTES
from handlers.folders.manifest import Manifest, digest_of, entry_of, in_pieces
from runner.errors import FilesMissingError
from store.base import Content, NewHandler, Store, Tenant
from store.url import open_store
from tests.support.jobs import T0, TENANT

FILES = {"main.py": b"return 1", "data/empty": b"", "data/big": b"x" * (PIECE_BYTES + 5), "run.sh": b"echo"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite://{tmp_path}/store.db") as opened:
        await opened.create_tenant(Tenant(TENANT, T0))
        yield opened


@pytest.fixture
def trees(store: Store, tmp_path: Path) -> UnpackedTrees:
    return UnpackedTrees(store, tmp_path / "trees")


async def put(store: Store, files: dict[str, bytes], now_ms: int = T0) -> Manifest:
    manifest = Manifest.of(entry_of(name, data, is_executable=name == "run.sh") for name, data in files.items())
    pieces = [(digest_of(piece), piece) for data in files.values() for piece in in_pieces(data)]
    await put_pieces(store, TENANT, iter(pieces), {digest for digest, _ in pieces}, now_ms)
    await put_manifest(store, TENANT, manifest, now_ms)
    return manifest


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def modes_in(place: Path) -> dict[str, int]:
    return {name: (place / name).stat().st_mode & 0o777 for name in ("main.py", "run.sh", "data", ".")}


def spoil(place: Path, harm: str) -> None:
    place.chmod(0o755)
    victim = place / "main.py"
    victim.unlink()
    if harm != "missing":
        victim.write_bytes({"cut": b"", "changed": b"return 2"}.get(harm, FILES["main.py"]))
    if harm == "more":
        (place / "more").touch()
    if harm == "link":
        victim.unlink()
        victim.symlink_to(place / "run.sh")


def leave_behind(folder: Path) -> str:
    """What two killed processes left, and what one that lives is making; its name."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    for name in (f".new-999999999-{namespace}-x", f".old-999999999-{namespace}-x", f".new-1-{namespace}-x"):
        (folder / name).mkdir()
    return f".new-1-{namespace}-x"


def read(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def age(folder: Path, by_s: float = UNUSED_S) -> None:
    """Nobody has used these trees for so long."""
    for path in folder.iterdir():
        os.utime(path, (0, time.time() - by_s - 1))


def identity(place: Path) -> int:
    return place.stat().st_ino


async def test_a_tree_has_the_files_and_cannot_be_written_to(store: Store, trees: UnpackedTrees) -> None:
    manifest = await put(store, FILES)
    places = await asyncio.gather(*(trees.have(TENANT, manifest.digest) for _ in range(5)))
    assert len(set(places)) == 1
    assert await asyncio.to_thread(read, places[0]) == FILES
    assert await asyncio.to_thread(modes_in, places[0]) == {
        "main.py": 0o444,
        "run.sh": 0o555,
        "data": 0o555,
        ".": 0o555,
    }
    assert await asyncio.to_thread(names_in, places[0].parent) == [f"{TENANT}.{manifest.digest}"]


@pytest.mark.parametrize("harm", ["cut", "changed", "missing", "more", "link"])
async def test_a_tree_that_is_not_what_the_store_has_is_made_anew(
    store: Store, trees: UnpackedTrees, tmp_path: Path, harm: str
) -> None:
    manifest = await put(store, FILES)
    place = await trees.have(TENANT, manifest.digest)
    await asyncio.to_thread(spoil, place, harm)
    later = UnpackedTrees(store, tmp_path / "trees")  # another process
    assert await later.have(TENANT, manifest.digest) == place
    assert await asyncio.to_thread(read, place) == FILES


async def test_a_tree_that_cannot_be_whole_is_not_there(store: Store, trees: UnpackedTrees, tmp_path: Path) -> None:
    manifest = await put(store, FILES)
    await store.remove_contents(TENANT, [manifest.by_name["run.sh"].pieces[0]], before_ms=T0 + 1)
    for _ in range(2):
        with pytest.raises(FilesMissingError):
            await trees.have(TENANT, manifest.digest)
    assert await asyncio.to_thread(names_in, tmp_path / "trees") == []
    with pytest.raises(FilesMissingError, match="gone"):
        await trees.have(TENANT, "0" * 64)


async def test_of_two_processes_that_make_the_same_the_first_is_kept(
    store: Store, trees: UnpackedTrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its contexts have it already."""
    manifest = await put(store, FILES)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def read_slowly(*given: Any) -> AsyncIterator[Any]:
        begun.set()
        await go_on.wait()
        async for batch in read_pieces(*given):
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(unpacked, "read_pieces", read_slowly)
        slow = asyncio.create_task(UnpackedTrees(store, tmp_path / "trees").have(TENANT, manifest.digest))
        await begun.wait()
    place = await trees.have(TENANT, manifest.digest)
    first = await asyncio.to_thread(identity, place)
    go_on.set()
    assert await slow == place
    assert await asyncio.to_thread(identity, place) == first
    assert await asyncio.to_thread(names_in, place.parent) == [place.name]


@pytest.mark.parametrize("name", ["../../outside", "/{}/outside", "x/../../../outside"])
async def test_nothing_is_written_outside_whatever_the_list_of_files_says(
    store: Store, trees: UnpackedTrees, tmp_path: Path, name: str
) -> None:
    """The list may be a file of a folder that the tenant has sent."""
    name = name.format(tmp_path)
    files = Manifest((entry_of(name, b"x", is_executable=True),))
    await put_pieces(store, TENANT, iter([(digest_of(b"x"), b"x")]), {digest_of(b"x")}, T0)
    await put_manifest(store, TENANT, files, T0)
    with pytest.raises(FilesMissingError):
        await trees.have(TENANT, files.digest)
    assert not await asyncio.to_thread((tmp_path / "outside").exists)


async def test_a_piece_has_the_size_that_the_list_says(store: Store, trees: UnpackedTrees) -> None:
    """Or many small files would be as large together as nothing that may be sent."""
    files = Manifest((entry_of("x", b"x" * PIECE_BYTES)._replace(size_bytes=1),))
    await put(store, {"x": b"x" * PIECE_BYTES})
    await put_manifest(store, TENANT, files, T0)
    with pytest.raises(FilesMissingError):
        await trees.have(TENANT, files.digest)


async def test_what_a_killed_process_left_goes_and_what_another_makes_stays(
    store: Store, trees: UnpackedTrees, tmp_path: Path
) -> None:
    manifest = await put(store, FILES)
    place = await trees.have(TENANT, manifest.digest)
    living = await asyncio.to_thread(leave_behind, place.parent)
    await asyncio.to_thread((place.parent / "lost+found").mkdir)
    await asyncio.to_thread(age, place.parent)
    assert await trees.sweep({place.name}, {}) == 2
    assert await asyncio.to_thread(names_in, place.parent) == [living, place.name, "lost+found"]


async def test_only_what_no_version_needs_and_nobody_touched_is_collected(
    store: Store, trees: UnpackedTrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.handler_rules.VERSIONS_KEPT", 1)
    kept, gone = await put(store, FILES), await put(store, {"main.py": b"return 1", "other": b"other"})
    young = await put(store, {"young": b"young"}, T0 + GRACE_MS)
    for manifest in (kept, gone, young):
        await trees.have(TENANT, manifest.digest)
    await store.set_handler(TENANT, NewHandler(f"{TENANT}-t", "python", b"{}", T0, tree=kept.digest))
    collector = FolderCollector(store, trees)
    assert await collector.collect(T0 + GRACE_MS) == 0, "all are young"
    await asyncio.to_thread(age, tmp_path / "trees")
    assert await collector.collect(T0 + GRACE_MS + 1) == 2, "the list of one, and the piece that no other has"
    names = await asyncio.to_thread(names_in, tmp_path / "trees")
    assert names == sorted([f"{TENANT}.{kept.digest}", f"{TENANT}.{young.digest}"])
    assert await asyncio.to_thread(read, await trees.have(TENANT, kept.digest)) == FILES
    await store.set_handler(TENANT, NewHandler(f"{TENANT}-t", "python", b"{1}", T0, tree=""))
    await asyncio.to_thread(age, tmp_path / "trees")
    await trees.have(TENANT, kept.digest)
    assert await collector.collect(T0 + 3 * GRACE_MS) > 0
    assert await store.list_contents(TENANT) == []
    names = await asyncio.to_thread(names_in, tmp_path / "trees")
    assert names == [f"{TENANT}.{kept.digest}"], "a context may have it, whatever became of the version"
    await asyncio.to_thread(age, tmp_path / "trees")
    await collector.collect(T0 + 3 * GRACE_MS)
    assert await asyncio.to_thread(names_in, tmp_path / "trees") == []


async def test_a_tenant_whose_folders_cannot_be_read_keeps_all(store: Store, trees: UnpackedTrees) -> None:
    await put(store, FILES)
    await store.set_handler(TENANT, NewHandler(f"{TENANT}-t", "python", b"{}", T0, tree="0" * 64))
    before = await store.list_contents(TENANT)
    assert await FolderCollector(store, trees).collect(T0 + 9 * GRACE_MS) == 0
    assert await store.list_contents(TENANT) == before


async def test_what_a_deleted_tenant_had_goes_soon(store: Store, trees: UnpackedTrees) -> None:
    place = await trees.have(TENANT, (await put(store, FILES)).digest)
    await asyncio.to_thread(age, place.parent, GONE_S)
    while (await store.delete_tenant(TENANT)).more:
        pass
    await FolderCollector(store, trees).collect(T0)
    assert await asyncio.to_thread(names_in, place.parent) == []


async def test_one_tenant_that_cannot_be_read_holds_up_no_other(store: Store, trees: UnpackedTrees) -> None:
    folder = await put(store, FILES)
    await store.set_handler("aaa", NewHandler("aaa-t", "python", b"{}", T0, tree="0" * 64))
    await store.put_contents("aaa", [Content("aaa", digest_of(b"x"), T0, b"x")])
    places = [await trees.have(TENANT, folder.digest)]
    places.append(places[0].with_name(f"aaa.{'1' * 64}"))
    await asyncio.to_thread(places[1].mkdir)
    await asyncio.to_thread(age, places[0].parent)
    assert await FolderCollector(store, trees).collect(T0 + 9 * GRACE_MS) > 0
    assert await store.list_contents(TENANT) == []
    assert len(await store.list_contents("aaa")) == 1
    assert await asyncio.to_thread(names_in, places[0].parent) == [places[1].name]


async def test_a_download_is_the_same_folder(store: Store) -> None:
    manifest = await put(store, {**FILES, "ünïcode/" + "n" * 110: b"", "zz-last-and-empty": b""})
    tar = b"".join([piece async for piece in tar_pieces(store, TENANT, manifest)])
    assert list_archive(tar, "tar", DEFAULT_LIMITS) == manifest
    assert hashlib.sha256(manifest.encoded).hexdigest() == manifest.digest

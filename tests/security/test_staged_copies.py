"""Without namespaces (L1) a context with a uid of its own gets copies of what that uid cannot reach. Tenants make what
is copied, version after version: a copy that nobody uses takes no room on the machine's disk.
"""

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runner.sandbox.handover import Stage
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer
from tests.support.contexts import finish, receive, sh
from tests.support.needs import missing

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def without_namespaces(machine: frozenset[Layer]) -> frozenset[Layer]:
    if Layer.UID not in machine:
        missing("uids for contexts", "run as root")
    return machine - {Layer.NAMESPACES}


def _folders(parent: Path, count: int) -> list[Path]:
    """In a place that nobody else can reach."""
    parent.mkdir(mode=0o700)
    made = [parent / f"acme.{number}" for number in range(count)]
    for folder in made:
        folder.mkdir()
        (folder / "main").write_text(folder.name)
    return made


def _copied(launcher: SandboxLauncher, name: str) -> list[str]:
    assert launcher._stage is not None
    assert launcher._stage._folder is not None
    return sorted(path.name for path in launcher._stage._folder.glob(f"*/{name}"))


async def test_a_folder_that_no_context_has_is_not_copied_any_more(
    without_namespaces: frozenset[Layer], tmp_path: Path
) -> None:
    launcher = SandboxLauncher(without_namespaces, spares=0)
    await launcher.start()
    trees = await asyncio.to_thread(_folders, tmp_path / "trees", 3)
    ask = sh('cat "$FUNCTORY_HANDLER/main" >&4; read end <&3')
    staying = [await launcher.launch(replace(ask, tree=trees[0])) for _ in range(2)]
    for tree in [*trees, *trees]:
        child = await launcher.launch(replace(ask, tree=tree))
        assert await receive(child.reader) == tree.name.encode()
        await child.kill()
        child.close()
    await launcher.tidied()
    assert await asyncio.to_thread(_copied, launcher, "acme.*") == ["acme.0"]
    for child in staying:
        assert await receive(child.reader) == b"acme.0"
        await child.kill()
        child.close()
    await launcher.tidied()
    assert await asyncio.to_thread(_copied, launcher, "acme.*") == []
    await launcher.close()


async def test_packages_whose_spawner_has_ended_are_not_copied_any_more(
    without_namespaces: frozenset[Layer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.sandbox.launcher._PACKAGED_SPAWNERS", 1)
    launcher = SandboxLauncher(without_namespaces, spares=0)
    await launcher.start()
    ask = sh('cat "$0/main" >&4')
    for packages in await asyncio.to_thread(_folders, tmp_path / "packages", 3):
        spec = replace(ask, argv=(*ask.argv, packages), packages=packages)
        assert (await finish(await launcher.launch(spec)))[0] == packages.name.encode()
    await launcher.tidied()
    assert await asyncio.to_thread(_copied, launcher, "acme.*") == ["acme.2"]
    await launcher.close()


async def test_a_copy_that_failed_leaves_nothing_and_keeps_no_other_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full for a moment: from then on no path could be staged until the next start."""
    first, second = await asyncio.to_thread(_folders, tmp_path / "trees", 2)
    stage = Stage()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", _refuse)
        with pytest.raises(OSError, match="No space left"):
            await asyncio.to_thread(stage.put, first)
    assert stage._folder is not None
    assert await asyncio.to_thread(os.listdir, stage._folder) == []
    copy = await asyncio.to_thread(stage.put, second)
    assert await asyncio.to_thread((copy / "main").read_text) == "acme.1"
    await asyncio.to_thread(stage.close)


def _refuse(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")

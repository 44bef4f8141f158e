"""Finding and using cgroups of both versions, on a directory tree that looks like them."""

import os
from pathlib import Path

import pytest

from runner.errors import LaunchError
from runner.sandbox import cgroups
from runner.sandbox.cgroups import V1, V2, Cgroups
from runner.sandbox.leftovers import mark


def _populate(directory: Path, **files: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content)


def test_version_1_has_a_directory_per_controller(tmp_path: Path) -> None:
    mountinfo = (
        f"30 25 0:26 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
        f"31 25 0:27 /docker/abc {tmp_path}/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n"
        f"32 25 0:28 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n"
    )
    own = "4:memory:/services/functory\n8:pids:/docker/abc/inner\n0::/\n"
    mounts, paths = dict(cgroups._mounts(mountinfo)), dict(cgroups._own_paths(own))
    assert cgroups._below(mounts["memory"], paths["memory"]) == tmp_path / "memory/services/functory"
    assert cgroups._below(mounts["pids"], paths["pids"]) == tmp_path / "pids/inner"
    assert cgroups._below(mounts["unified"], paths["unified"]) == tmp_path / "unified"


def test_version_2_limits_memory_swap_and_processes_of_the_tree(tmp_path: Path) -> None:
    directory = tmp_path / "context"
    _populate(directory, memory__events="low 0\noom 3\noom_kill 2\n", memory__current="4096\n")
    cgroup = cgroups.Cgroup({"memory": directory, "pids": directory}, V2)
    cgroup.set_limits(memory_bytes=1000, processes=7)
    read = {path.name: path.read_text() for path in directory.iterdir()}
    assert read["memory.max"] == "1000"
    assert read["memory.swap.max"] == "0"
    assert read["memory.oom.group"] == "1"
    assert read["pids.max"] == "7"
    assert cgroup.directories == (directory,)
    assert cgroup.memory_bytes() == 4096
    assert cgroup.oom_kills() == 2


def test_version_1_limits_memory_and_processes_in_two_places(tmp_path: Path) -> None:
    memory, pids = tmp_path / "memory", tmp_path / "pids"
    _populate(memory, memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    _populate(pids)
    cgroup = cgroups.Cgroup({"memory": memory, "pids": pids}, V1)
    cgroup.set_limits(memory_bytes=1000, processes=7)
    assert (memory / "memory.limit_in_bytes").read_text() == "1000"
    assert (memory / "memory.memsw.limit_in_bytes").read_text() == "1000"
    assert (pids / "pids.max").read_text() == "7"
    assert cgroup.directories == (memory, pids)
    assert cgroup.memory_bytes() == 0  # no such file: it is gone
    assert cgroup.oom_kills() == 1


def test_in_version_2_the_daemon_steps_aside_into_a_leaf(tmp_path: Path) -> None:
    _populate(tmp_path, cgroup__controllers="cpu memory pids\n", cgroup__subtree_control="\n")
    cgroups._delegate(tmp_path)
    assert (tmp_path / "functory-daemon" / "cgroup.procs").read_text() == str(os.getpid())
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_in_version_2_a_controller_that_is_not_delegated_is_named(tmp_path: Path) -> None:
    _populate(tmp_path, cgroup__controllers="cpu memory\n", cgroup__subtree_control="\n")
    with pytest.raises(OSError, match="pids"):
        cgroups._delegate(tmp_path)
    assert not (tmp_path / "functory-daemon").exists()


def test_subtrees_of_dead_daemons_are_removed_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    namespace = mark().partition("-")[2]
    dead, alive = tmp_path / f"functory-4194305-{namespace}-1", tmp_path / f"functory-{mark()}-9999"
    elsewhere = tmp_path / "functory-4194305-1-1"  # of a daemon in another container, whose processes nobody sees here
    elsewhere.mkdir()
    (dead / "context").mkdir(parents=True)
    alive.mkdir()
    subtree = Cgroups({"memory": tmp_path, "pids": tmp_path}, V1)
    subtree.open()
    assert not dead.exists()
    assert alive.exists()
    subtree.close()
    subtree.close()
    assert set(tmp_path.iterdir()) == {alive, elsewhere}


def test_a_cgroup_that_cannot_be_made_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    subtree = Cgroups(dict.fromkeys(["memory", "pids"], tmp_path / "missing"), V1)
    with pytest.raises(LaunchError, match="nothing was started"):
        subtree.create("1", memory_bytes=1, processes=1)
    assert list(tmp_path.iterdir()) == []


def test_version_2_counts_processor_time_and_tasks_and_freezes(tmp_path: Path) -> None:
    _populate(tmp_path, cpu__stat="usage_usec 2500000\nuser_usec 1\n", pids__current="4\n", cgroup__freeze="0\n")
    cgroup = cgroups.Cgroup(dict.fromkeys(("memory", "pids", "cpu"), tmp_path), V2)
    assert cgroup.cpu_s() == 2.5
    assert cgroup.tasks() == 4
    assert cgroup.set_frozen(frozen=True)
    assert (tmp_path / "cgroup.freeze").read_text().startswith("1")
    assert cgroup.set_frozen(frozen=False)
    assert (tmp_path / "cgroup.freeze").read_text().startswith("0")


def test_version_1_has_these_in_places_of_their_own_or_not_at_all(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("memory", "pids", "cpuacct", "freezer")}
    for folder in folders.values():
        folder.mkdir()
    _populate(folders["cpuacct"], cpuacct__usage="1500000000\n")
    _populate(folders["freezer"], freezer__state="THAWED\n")
    cgroup = cgroups.Cgroup(folders, V1)
    assert cgroup.cpu_s() == 1.5
    assert cgroup.set_frozen(frozen=True)
    assert (folders["freezer"] / "freezer.state").read_text().startswith("FROZEN")
    bare = cgroups.Cgroup({name: folders[name] for name in ("memory", "pids")}, V1)
    assert bare.cpu_s() == 0.0
    assert bare.tasks() == 0
    assert not bare.set_frozen(frozen=True)


@pytest.mark.parametrize(
    ("dialect", "memory_max", "weight"),
    [
        (V1, "memory.limit_in_bytes", ("cpu.shares", str(768 * (os.cpu_count() or 1)))),
        (V2, "memory.max", ("cpu.weight", "75")),
    ],
)
def test_all_contexts_together_have_a_bound_and_weigh_less_than_the_daemon(
    tmp_path: Path, dialect: cgroups.Dialect, memory_max: str, weight: tuple[str, str]
) -> None:
    subtree = Cgroups(dict.fromkeys(("memory", "pids", "cpu"), tmp_path), dialect)
    subtree.open(memory_bytes=1 << 28)
    own = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert (own / memory_max).read_text() == str(1 << 28)
    assert (own / weight[0]).read_text() == weight[1]
    assert not (own / "memory.oom.group").exists(), "the limit of all must not cost all of them"


def test_an_optional_controller_that_may_not_be_used_is_left_out(tmp_path: Path) -> None:
    folders = dict.fromkeys(("memory", "pids"), tmp_path) | {"freezer": tmp_path / "missing"}
    subtree = Cgroups(folders, V1)
    subtree.open()
    assert subtree.controllers == ("memory", "pids")

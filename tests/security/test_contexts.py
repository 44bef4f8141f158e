"""What only the sandbox promises: limits with a reason, nothing left behind, whoever dies first."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runner.errors import LaunchError
from runner.launch import Level
from runner.sandbox.handover import sweep
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer
from runner.sandbox.leftovers import mark
from tests.support.contexts import DEADLINE_S, LIMITS, discard, finish, forked, receive, receive_all, sh
from tests.support.needs import missing

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.asyncio(loop_scope="module")
MARK = mark()


async def test_the_level_is_on_every_context(launcher: SandboxLauncher) -> None:
    child = await launcher.launch(sh("exit 0"))
    assert child.level == launcher.level
    await finish(child)


async def test_an_end_for_memory_is_told_as_such(launcher: SandboxLauncher) -> None:
    if launcher.level < Level.L3:
        missing("a cgroup", "run as root")
    child = await launcher.launch(sh("head -c 300000000 /dev/zero | exec tail"))
    assert (await child.wait()).oom
    child.close()
    other = await launcher.launch(sh("exit 1"))
    assert not (await other.wait()).oom
    other.close()


async def test_the_page_cache_of_a_context_is_its_own(launcher: SandboxLauncher, tmp_path: Path) -> None:
    """Reading more than the limit is no reason to die, and does not push out other tenants' memory either."""
    if launcher.level < Level.L3:
        missing("a cgroup", "run as root")
    big = Path(f"/var/tmp/functory-cache-{os.getpid()}")  # noqa: S108  # on a disk: a tmpfs has no other copy
    await asyncio.to_thread(_write_uncached, big, LIMITS.memory_bytes * 2)
    try:
        spec = sh('cat "$0" >/dev/null; echo read >&4; read end <&3')
        child = await launcher.launch(replace(spec, argv=(*spec.argv, big)))
        assert await receive(child.reader) == b"read\n"
        assert LIMITS.memory_bytes // 2 < child.memory_bytes() <= LIMITS.memory_bytes
        await discard(child)
    finally:
        await asyncio.to_thread(big.unlink)


def _write_uncached(path: Path, size_bytes: int) -> None:
    with path.open("wb") as file:
        for _ in range(size_bytes >> 20):
            file.write(bytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def test_a_spinning_program_meets_its_cpu_limit(launcher: SandboxLauncher) -> None:
    child = await launcher.launch(sh("while :; do :; done", limits=replace(LIMITS, cpu_s=1)))
    assert (await child.wait()).signal in {signal.SIGXCPU, signal.SIGKILL}
    child.close()


async def test_contexts_have_different_uids_while_they_live(launcher: SandboxLauncher) -> None:
    if Layer.UID not in launcher.layers:
        missing("root", "run the tests as root")
    children = [await launcher.launch(sh("echo up >&4; read end <&3")) for _ in range(3)]
    for child in children:
        await receive(child.reader)
    uids = {int(await _status(child.pid, "Uid")) for child in children}
    assert len(uids) == 3
    assert 0 not in uids
    for child in children:
        await discard(child)


async def _status(pid: int, name: str) -> str:
    text = await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)
    return next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name}:"))


async def test_the_network_is_there_when_it_is_granted_and_only_then(launcher: SandboxLauncher) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    script = f"bash -c 'exec 9<>/dev/tcp/127.0.0.1/{port}' && echo connected >&4 || echo refused >&4"
    for network, answer in ((True, b"connected\n"), (False, b"refused\n")):
        replies, _ = await finish(await launcher.launch(sh(script, network=network)))
        assert replies == answer
    server.close()


async def test_what_the_program_cannot_see_of_us(launcher: SandboxLauncher, tmp_path: Path) -> None:
    """No module of ours, no name of the machine, no process but its own."""
    if launcher.level < Level.L2:
        missing("namespaces", "install bubblewrap")
    program = tmp_path / "program.py"
    source = """if True:
        import os, socket, sys
        ours = [name for name in sys.modules if name.startswith("runner")]
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        os.write(4, repr((ours, socket.gethostname(), pids, os.getuid())).encode())
    """
    await asyncio.to_thread(program.write_text, source)
    replies, log = await finish(await launcher.launch(forked(program)))
    assert replies == b"([], 'context', [1, 2], 1000)", log


async def test_a_context_has_five_descriptors(launcher: SandboxLauncher, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    source = """if True:
        import fcntl, os
        found = []
        for fd in range(1024):
            try:
                fcntl.fcntl(fd, fcntl.F_GETFD)
            except OSError:
                continue
            found.append(fd)
        os.write(4, repr(found).encode())
    """
    await asyncio.to_thread(program.write_text, source)
    replies, log = await finish(await launcher.launch(forked(program)))
    assert replies == b"[0, 1, 2, 3, 4]", log


async def test_a_context_is_in_no_group_of_the_daemon(machine: frozenset[Layer]) -> None:
    if Layer.UID not in machine:
        missing("root", "run the tests as root")
    before = os.getgroups()
    os.setgroups([*before, 4242])
    launcher = SandboxLauncher(machine)
    try:
        await launcher.start()
        replies, log = await finish(await launcher.launch(sh("grep Groups: /proc/self/status >&4")))
    finally:
        await launcher.close()
        os.setgroups(before)
    assert replies.split() == [b"Groups:"], log


async def test_only_processes_are_seen_in_proc(launcher: SandboxLauncher) -> None:
    if launcher.level < Level.L2:
        missing("namespaces", "install bubblewrap")
    replies, log = await finish(await launcher.launch(sh("ls /proc >&4")))
    assert {name for name in replies.split() if not name.isdigit()} == {b"self", b"thread-self"}, log


@pytest.mark.parametrize(
    "fill",
    ["head -c 9000000 /dev/zero >big", "i=0; while true >$i && [ $i -lt 9999 ]; do i=$((i+1)); done; [ $i = 9999 ]"],
)
async def test_scratch_space_has_an_end_in_bytes_and_in_files(launcher: SandboxLauncher, fill: str) -> None:
    if launcher.level < Level.L2:
        missing("namespaces", "install bubblewrap")
    spec = sh(f"{fill} || echo full >&4", limits=replace(LIMITS, scratch_bytes=4_000_000, file_bytes=64 << 20))
    replies, log = await finish(await launcher.launch(spec))
    assert (replies, b"No space left" in log) == (b"full\n", True), log


async def test_the_program_has_no_rights_left_to_lose(launcher: SandboxLauncher) -> None:
    if launcher.level < Level.L2:
        missing("namespaces", "install bubblewrap")
    replies, _ = await finish(await launcher.launch(sh("cat /proc/self/status >&4")))
    status = dict(line.split(":\t", 1) for line in replies.decode().splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Groups"].strip() in {"", "65534"}  # 65534: one of the daemon's user that has no name in here


@pytest.mark.parametrize("without", [set(), {Layer.NAMESPACES}], ids=["all", "no-namespaces"])
async def test_a_spawner_that_died_is_replaced(machine: frozenset[Layer], without: set[Layer]) -> None:
    """Also while contexts of the old one live on, as they do without namespaces."""
    launcher = SandboxLauncher(machine - without)
    await launcher.start()
    living = await launcher.launch(sh("read end <&3"))
    for task in tuple(launcher._spawners.values()):
        spawner = task.result()
        assert spawner._process is not None
        spawner._process.kill()
        await spawner._process.wait()
    replies, _ = await finish(await launcher.launch(sh("echo again >&4")))
    assert replies == b"again\n"
    await discard(living)
    await launcher.close()


@pytest.mark.parametrize(("count", "size"), [(1, 10), (1, 5_000), (5, 100_000)])
async def test_a_blank_context_takes_an_environment_of_any_size(
    launcher: SandboxLauncher, count: int, size: int
) -> None:
    """All in one write that is whole or none, in one that need not be, and more than the pipe holds."""
    spec = sh(f"echo ${{#V0}} ${{#V{count - 1}}} >&4", env={f"V{n}": "x" * size for n in range(count)})
    await launcher.prepare(spec)
    replies, _ = await finish(await launcher.launch(spec))
    assert replies == f"{size} {size}\n".encode()


async def test_kinds_are_told_apart_and_not_remembered_without_end(launcher: SandboxLauncher) -> None:
    specs = [replace(sh("exit 0"), limits=replace(LIMITS, open_files=number)) for number in range(32, 532)]
    kinds = [launcher._kind(spec) for spec in specs]
    assert [kind.limits.open_files for kind in kinds] == list(range(32, 532))
    assert launcher._kind(specs[-1]) is kinds[-1]
    assert launcher._kind(specs[0]) == kinds[0]
    assert len(launcher._kinds) <= 256


async def test_a_folder_that_was_made_anew_is_another_one(launcher: SandboxLauncher, tmp_path: Path) -> None:
    """A blank context that has the old one in its sight is not used."""
    tree = tmp_path / "trees" / "acme.0"
    await asyncio.to_thread(_make_folder, tree)
    spec = replace(sh('cat "$FUNCTORY_HANDLER/main" >&4'), tree=tree)
    await launcher.prepare(spec)
    await asyncio.to_thread(shutil.rmtree, tree)
    await asyncio.to_thread(_make_folder, tree)
    replies, log = await finish(await launcher.launch(spec))
    assert replies == b"here", log


def _make_folder(tree: Path) -> None:
    tree.mkdir(parents=True)
    tree.parent.chmod(0o711)
    (tree / "main").write_text("here")


async def test_a_context_with_a_folder_is_ready_before_it_is_wanted(launcher: SandboxLauncher, tmp_path: Path) -> None:
    tree = tmp_path / "trees" / "acme.0"
    await asyncio.to_thread(_make_folder, tree)
    spec = replace(sh('cat "$FUNCTORY_HANDLER/main" >&4'), tree=tree)
    await launcher.prepare(spec)
    made = launcher._made
    child = await launcher.launch(spec)
    assert launcher._made == made
    assert (await finish(child))[0] == b"here"


async def test_a_relative_path_is_refused(launcher: SandboxLauncher) -> None:
    with pytest.raises(LaunchError, match="absolute"):
        await launcher.launch(replace(sh("exit 0"), readable=(Path("here"),)))


@pytest.mark.parametrize("env", [{"A": "x\0y"}, {"A=B": "c"}, {"": "d"}])
async def test_an_environment_that_cannot_be_is_refused(launcher: SandboxLauncher, env: dict[str, str]) -> None:
    with pytest.raises(LaunchError, match="environment"):
        await launcher.launch(sh("exit 0", env=env))


async def test_a_closed_launcher_launches_nothing(machine: frozenset[Layer]) -> None:
    closed = SandboxLauncher(machine)
    with pytest.raises(LaunchError, match="not been started"):
        await closed.launch(sh("exit 0"))
    await closed.start()
    await closed.close()
    with pytest.raises(LaunchError, match="closed"):
        await closed.launch(sh("exit 0"))


async def test_a_step_that_is_refused_is_named_and_nothing_is_started(
    machine: frozenset[Layer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.sandbox.seccomp.build", lambda **_: b"\xff" * 8)  # no valid program
    refused = SandboxLauncher(machine)
    await refused.start()
    with pytest.raises(LaunchError, match=r"could not be isolated.*prctl"):
        await refused.launch(sh("exit 0"))
    await refused.close()


async def test_links_in_the_scratch_directory_lead_nowhere(machine: frozenset[Layer], tmp_path: Path) -> None:
    """Without namespaces the scratch directory is one of the machine's, and the daemon removes it."""
    victim = tmp_path / "victim"
    await asyncio.to_thread(victim.mkdir)
    await asyncio.to_thread((victim / "file").touch)
    launcher = SandboxLauncher(machine - {Layer.NAMESPACES})
    await launcher.start()
    script = f"ln -s {victim} link; mkdir -p deep/er; ln -s {victim}/file deep/er/; chmod 0 deep; pwd >&4"
    replies, _ = await finish(await launcher.launch(sh(script)))
    await launcher.close()
    scratch = Path(replies.decode().strip())
    assert scratch.name.startswith(f"functory-scratch-{os.getpid()}-")
    assert not await asyncio.to_thread(scratch.exists)
    assert await asyncio.to_thread(os.listdir, victim) == ["file"]


async def test_scratch_directories_of_killed_daemons_are_removed(
    machine: frozenset[Layer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.sandbox.handover._PARENTS", (str(tmp_path),))
    dead, elsewhere = f"functory-scratch-4194305-{MARK.partition('-')[2]}", "functory-scratch-4194305-1-c"
    for name in (f"{dead}-a", f"functory-scratch-{MARK}-b", elsewhere, dead):
        await asyncio.to_thread((tmp_path / name / "deep").mkdir, parents=True)
    await asyncio.to_thread((tmp_path / f"{dead}-link").symlink_to, "/")
    launcher = SandboxLauncher(machine - {Layer.NAMESPACES})
    await launcher.start()
    await launcher.close()
    left = await asyncio.to_thread(os.listdir, tmp_path)
    assert set(left) == {f"{dead}-link", f"functory-scratch-{MARK}-b", elsewhere}


async def test_nothing_of_the_launcher_stays(machine: frozenset[Layer]) -> None:
    launcher = SandboxLauncher(machine)
    await launcher.start()
    child = await launcher.launch(sh("echo up >&4; sleep 600"))
    await receive(child.reader)
    subtree = launcher._cgroups
    await launcher.close()
    child.close()
    if subtree is not None:
        left = [base / subtree._name for base in subtree._bases()]
        assert not await asyncio.to_thread(lambda: [path for path in left if path.exists()])


_DAEMON = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from runner.launch import LaunchSpec, Limits
from runner.sandbox.handover import sweep
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer

async def main():
    launcher = SandboxLauncher({Layer(name) for name in sys.argv[2:]})
    await launcher.start()
    limits = Limits(1 << 27, 32, 64, 1 << 20, 1 << 20)
    script = "exec 4>&-; (trap '' TERM HUP; setsid sleep 600) & echo up; wait"
    child = await launcher.launch(LaunchSpec("acme", ("/bin/sh", "-c", script), {}, limits))
    while True:
        try:
            os.read(child.log_fd, 100)
            break
        except BlockingIOError:
            await asyncio.sleep(0.01)
    print(child.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("without", [set(), {Layer.NAMESPACES}, {Layer.NAMESPACES, Layer.UID, Layer.CGROUP}])
async def test_no_context_outlives_a_daemon_that_was_killed(machine: frozenset[Layer], without: set[Layer]) -> None:
    """Its init is the last to go, and goes only when no process of the context is left."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _DAEMON, str(ROOT), *(machine - without), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    watch = os.pidfd_open(pid)
    process.kill()
    await process.wait()
    await until_gone(watch)  # or the deadline fails the test
    os.close(watch)
    await asyncio.to_thread(sweep)  # as the next daemon would


async def until_gone(pidfd: int) -> None:
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, gone.set)
    try:
        await asyncio.wait_for(gone.wait(), DEADLINE_S)
    finally:
        loop.remove_reader(pidfd)


async def test_thousands_of_lines_of_log_do_not_hurt_the_launcher(launcher: SandboxLauncher) -> None:
    child = await launcher.launch(sh("seq 100000; echo done >&4"))
    log = await receive_all(child.log_fd)
    assert log.count(b"\n") == 100_000
    await discard(child)

"""What every launcher promises (`runner.launch`), run against the plain one and the sandbox."""

import asyncio
import os
import signal
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from runner.errors import LaunchError
from runner.launch import Exit, Launcher, LaunchSpec
from runner.plain import PlainLauncher
from runner.sandbox.launcher import SandboxLauncher
from tests.support.contexts import LIMITS, discard, finish, forked, receive, receive_all, sh
from tests.support.needs import need_command

LAUNCHERS: dict[str, Callable[[], Launcher]] = {
    "plain": PlainLauncher,
    "sandbox": SandboxLauncher,
    "sandbox-without-stock": lambda: SandboxLauncher(spares=0),
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(params=list(LAUNCHERS), scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name != "plain":
        need_command("bwrap", "bubblewrap")
    return name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launcher(kind: str) -> AsyncIterator[Launcher]:
    made = LAUNCHERS[kind]()
    await made.start()
    yield made
    await made.close()


async def test_requests_replies_and_log_have_their_own_pipes(launcher: Launcher) -> None:
    child = await launcher.launch(sh("echo log; echo error >&2; read word <&3; echo reply $word >&4"))
    os.write(child.writer, b"hello\n")
    assert await finish(child) == (b"reply hello\n", b"log\nerror\n")


async def test_the_environment_is_the_given_one_and_the_scratch_directory(launcher: Launcher) -> None:
    os.environ["OF_THE_DAEMON"] = "yes"
    child = await launcher.launch(sh("env | sort >&4; pwd >&4", env={"COLOUR": "blue"}))
    replies, _ = await finish(child)
    lines = replies.decode().split("\n")
    names = {line.partition("=")[0] for line in lines if "=" in line}
    scratch = next(line.removeprefix("TMPDIR=") for line in lines if line.startswith("TMPDIR="))
    assert names <= {"COLOUR", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"}
    assert "COLOUR=blue" in lines
    assert scratch in lines  # it is where the program starts


async def test_nothing_is_open_but_the_promised_descriptors(launcher: Launcher) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    child = await launcher.launch(sh("for fd in /proc/$$/fd/*; do [ -e $fd ] && echo ${fd##*/}; done >&4"))
    replies, _ = await finish(child)
    os.close(read_end)
    os.close(write_end)
    # sh itself keeps a copy of its output at 10 while it is redirected
    assert set(replies.split()) - {b"10"} == {b"0", b"1", b"2", b"3", b"4"}


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ("exit 0", Exit(0, None)),
        ("exit 7", Exit(7, None)),
        ("exit 200", Exit(200, None)),
        ("kill -USR1 $$", Exit(None, signal.SIGUSR1)),
    ],
)
async def test_the_end_is_told_by_status_or_signal(launcher: Launcher, script: str, ended: Exit) -> None:
    child = await launcher.launch(sh(script))
    first, second = await asyncio.gather(child.wait(), child.wait())
    assert (first, second) == (ended, ended)
    assert child.memory_bytes() == 0
    child.close()


async def test_kill_takes_the_children_along_and_is_idempotent(launcher: Launcher) -> None:
    child = await launcher.launch(sh("(trap '' TERM; sleep 600) & echo up >&4; wait"))
    assert await receive(child.reader) == b"up\n"
    assert child.memory_bytes() > 0
    await asyncio.gather(child.kill(), child.kill())
    await child.kill()
    assert await receive_all(child.reader) == b""  # nobody holds it any more
    assert (await child.wait()).signal == signal.SIGKILL
    child.close()


async def test_terminate_asks_and_the_program_may_clean_up(launcher: Launcher) -> None:
    child = await launcher.launch(sh("trap 'echo bye >&4; exit 3' TERM; echo up >&4; while :; do sleep 0.01; done"))
    assert await receive(child.reader) == b"up\n"
    await child.terminate()
    assert await receive_all(child.reader) == b"bye\n"
    assert await child.wait() == Exit(3, None)
    await child.terminate()
    child.close()


async def test_a_program_that_is_not_there(launcher: Launcher) -> None:
    spec = LaunchSpec("acme", ("/no/such/program",), {}, LIMITS)
    try:
        child = await launcher.launch(spec)
    except LaunchError:
        return
    assert (await child.wait()).status == 127  # the plain launcher learns of it late
    child.close()


async def test_python_runs_as_if_it_had_been_executed(launcher: Launcher, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    source = """
        import os, sys
        os.write(4, repr((__name__, sys.argv[1:], os.environ["COLOUR"], sys.flags.isolated)).encode())
        print("printed")
        sys.exit(5)
    """
    await asyncio.to_thread(program.write_text, textwrap.dedent(source))
    child = await launcher.launch(forked(program, "a", "b", env={"COLOUR": "blue"}))
    replies, log = await finish(child)
    assert replies == b"('__main__', ['a', 'b'], 'blue', 1)"
    assert log == b"printed\n"
    assert (await child.wait()).status == 5


async def test_a_python_program_may_prepare_before_it_has_an_environment(launcher: Launcher, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    source = """
        import os, sys
        def prepare():
            os.write(4, repr((sys.argv[1:], sys.modules["__main__"].__file__ == __file__)).encode())
            return lambda: os.write(4, repr((__name__, os.environ["COLOUR"])).encode())
        if __name__ == "__main__":
            prepare()()
    """
    await asyncio.to_thread(program.write_text, textwrap.dedent(source))
    child = await launcher.launch(forked(program, "a", env={"COLOUR": "blue"}))
    assert (await finish(child))[0] == b"(['a'], True)('__main__', 'blue')"


async def test_an_uncaught_exception_is_log_text_and_status_1(launcher: Launcher, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    await asyncio.to_thread(program.write_text, "raise KeyError('lost')\n")
    child = await launcher.launch(forked(program))
    _, log = await finish(child)
    assert log.rstrip().endswith(b"KeyError: 'lost'")
    assert (await child.wait()).status == 1


async def test_an_environment_bigger_than_a_pipe(launcher: Launcher) -> None:
    env = {f"V{n}": "x" * 100_000 for n in range(5)}
    child = await launcher.launch(sh("echo ${#V0} ${#V4} >&4", env=env))
    assert (await finish(child))[0] == b"100000 100000\n"


async def test_close_ends_what_is_left(kind: str) -> None:
    launcher = LAUNCHERS[kind]()
    await launcher.start()
    children = [await launcher.launch(sh("echo up >&4; sleep 600")) for _ in range(3)]
    for child in children:
        await receive(child.reader)
    await launcher.close()
    for child in children:
        assert (await child.wait()).signal == signal.SIGKILL
        assert await receive_all(child.reader) == b""
        child.close()
    await launcher.close()


async def test_close_is_legal_before_start(kind: str) -> None:
    await LAUNCHERS[kind]().close()


async def test_many_at_once(launcher: Launcher) -> None:
    children = await asyncio.gather(*(launcher.launch(sh(f"echo {n} >&4")) for n in range(12)))
    replies = await asyncio.gather(*(finish(child) for child in children))
    assert sorted(int(reply) for reply, _ in replies) == list(range(12))


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 13])
async def test_a_cancelled_launch_leaves_nothing(
    kind: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    launcher = LAUNCHERS[kind]()
    await launcher.start()
    before = await asyncio.to_thread(os.listdir, "/proc/self/fd")
    task = asyncio.create_task(launcher.launch(sh("sleep 600")))
    for _ in range(steps):
        await asyncio.sleep(0)
    if task.cancel():
        with pytest.raises(asyncio.CancelledError):
            await task
    else:  # it was faster
        await discard(task.result())
    await launcher.close()
    assert await asyncio.to_thread(os.listdir, tmp_path) == []
    if kind != "sandbox":  # there the stock of the module's launcher may be filling up meanwhile
        assert len(await asyncio.to_thread(os.listdir, "/proc/self/fd")) <= len(before)


async def test_the_neighbour_of_a_killed_context_goes_on(launcher: Launcher) -> None:
    one, other = [await launcher.launch(sh("cat <&3 >&4")) for _ in range(2)]
    await discard(one)
    os.write(other.writer, b"still here")
    assert await receive(other.reader) == b"still here"
    await discard(other)

"""The probe tells the truth: with all layers, with some, and when a promise is not kept."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runner.errors import IsolationError, ProgramError
from runner.launch import LaunchSpec, Level
from runner.sandbox.attacks import ATTACKS, PROGRAMS
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import ALL, Layer, level_of
from runner.sandbox.probe import Outcome, Report, Verdict, attack_all, level_reached, probe, proven_launcher
from tests.support.contexts import LIMITS
from tests.support.needs import missing, need_isolation

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
async def test_the_level_of_this_machine_is_what_its_layers_promise(machine: frozenset[Layer]) -> None:
    report = await probe(brief=True, languages=("python", "sh"))
    assert report.offered == level_of(machine)
    assert report.broken == ()
    assert report.level == report.offered
    assert {state.layer for state in report.missing} == ALL - machine
    assert {verdict.attack for verdict in report.verdicts} == {a.name for a in ATTACKS if a.brief}


@pytest.mark.slow
@pytest.mark.usefixtures("all_layers")
@pytest.mark.parametrize(
    ("without", "level"),
    [
        ({Layer.CGROUP}, Level.L2),
        ({Layer.NAMESPACES}, Level.L1),
        ({Layer.NAMESPACES, Layer.CGROUP}, Level.L1),
    ],
)
async def test_a_lower_level_keeps_its_own_promises(without: set[Layer], level: Level) -> None:
    launcher = SandboxLauncher(ALL - without, spares=0)
    await launcher.start()
    assert launcher.level == level
    try:
        verdicts = await attack_all(launcher, ATTACKS, ["python", "sh"])
    finally:
        await launcher.close()
    assert [v for v in verdicts if not v.stopped and v.stopped_from <= level] == []
    assert level_reached(level, verdicts) == level
    assert any(v.stopped_from > level for v in verdicts)  # run all the same, and listed


@pytest.mark.slow
async def test_a_layer_that_does_not_hold_is_found_out(
    machine: frozenset[Layer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine says that it filters system calls, and it does not."""
    monkeypatch.setattr("runner.sandbox.seccomp.build", lambda **_: b"")
    if Layer.SECCOMP not in machine:
        missing("seccomp", "run on x86_64 or aarch64")
    await asyncio.to_thread(need_isolation)
    report = await probe(brief=True, languages=("python",))
    assert report.offered > Level.L0
    assert report.level == Level.L0
    assert "kernel_surface" in {verdict.attack for verdict in report.broken}


@pytest.mark.slow
async def test_namespaces_that_are_offered_and_then_refused_are_left_out_and_named(
    machine: frozenset[Layer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that lets bubblewrap start and forbids what is done inside it."""
    if Layer.NAMESPACES not in machine:
        missing("bubblewrap", "install it with `make system`")
    monkeypatch.setattr("runner.sandbox.runtime._DEVICES", ("/dev/no-such-device",))
    report = await probe(brief=True, languages=("sh",))
    assert report.level == level_of(machine - {Layer.NAMESPACES})
    assert "no-such-device" in next(s.detail for s in report.missing if s.layer is Layer.NAMESPACES)


@pytest.mark.slow
async def test_the_daemon_gets_a_proven_launcher_or_a_reason(
    machine: frozenset[Layer], monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(need_isolation)
    reached = level_of(machine)
    launcher, report = await proven_launcher(reached)
    assert launcher.level == report.level == reached
    await launcher.close()
    monkeypatch.setattr("runner.sandbox.seccomp.build", lambda **_: b"")
    with pytest.raises(IsolationError, match="kernel_surface"):
        await proven_launcher(Level.L1)


def test_no_context_claims_more_than_was_proven() -> None:
    assert SandboxLauncher(ALL, proven=Level.L1).level == Level.L1
    assert SandboxLauncher(ALL - {Layer.CGROUP}, proven=Level.L3).level == Level.L2


@pytest.mark.slow
async def test_without_bubblewrap_it_says_so_and_how_to_get_it() -> None:
    report = await _probe_elsewhere({"PATH": "/nonexistent"})
    assert "bubblewrap is not installed" in report
    assert "apt-get install bubblewrap" in report
    assert f"level {1 if os.geteuid() == 0 else 0}" in report


@pytest.mark.slow
async def test_without_root_it_is_level_2_where_user_namespaces_are_allowed(
    machine: frozenset[Layer],
) -> None:
    if os.geteuid() != 0 or Layer.NAMESPACES not in machine:
        missing("root, to give it up", "run the tests as root")
    report = await _probe_elsewhere(
        {"PATH": "/usr/bin:/bin"}, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"
    )
    assert "not running as root" in report
    assert "level 2" in report


_PROGRAM = """
import asyncio, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from runner.sandbox.probe import probe
report = asyncio.run(probe(brief=True, languages=("python", "sh")))
print("level", int(report.level), *report.missing, *report.broken, sep="\\n")
print(f"level {int(report.level)}")
"""


async def _probe_elsewhere(env: dict[str, str], *prefix: str) -> str:
    python = "/usr/bin/python3" if prefix else sys.executable
    place = await asyncio.to_thread(_copy_for_everybody)
    command = [*prefix, python, "-c", _PROGRAM, str(place)]
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, env=env, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        await asyncio.to_thread(shutil.rmtree, place)
    return done.stdout + done.stderr


def _copy_for_everybody() -> Path:
    """The code where any user can read it: the daemon of a user is installed somewhere that this user can reach."""
    place = Path(tempfile.mkdtemp(prefix="functory-probe-", dir="/var/tmp"))  # the name is new
    for package in ("handlers", "runner", "vocabulary"):
        if (ROOT / package).exists():
            shutil.copytree(ROOT / package, place / package)
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


def test_the_level_reached_is_the_highest_that_kept_every_promise() -> None:
    kept = Verdict("a", "sh", Outcome.STOPPED, "", Level.L1)
    assert level_reached(Level.L3, [kept]) == Level.L3
    assert level_reached(Level.L3, [kept, Verdict("b", "sh", Outcome.THROUGH, "", Level.L3)]) == Level.L2
    assert level_reached(Level.L2, [kept, Verdict("b", "sh", Outcome.THROUGH, "", Level.L3)]) == Level.L2
    assert level_reached(Level.L3, [kept, Verdict("b", "sh", Outcome.THROUGH, "", Level.L1)]) == Level.L0
    assert level_reached(Level.L0, []) == Level.L0


def test_what_could_not_be_tried_is_neither_stopped_nor_through() -> None:
    """Another language that tried it is proof enough, since all share one sandbox; if none did, nothing is proven."""
    stopped = Verdict("a", "python", Outcome.STOPPED, "", Level.L2)
    untried = Verdict("a", "node", Outcome.UNTRIED, "no such file", Level.L2)
    assert level_reached(Level.L3, [stopped, untried]) == Level.L3
    assert level_reached(Level.L3, [untried]) == Level.L1
    report = Report(Level.L3, Level.L3, (), (stopped, untried))
    assert report.broken == ()
    assert report.untried == (untried,)
    assert report.unable == {"node": "no such file"}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["read_file", "memory"])
async def test_a_program_that_does_not_start_is_told_with_its_reason(
    machine: frozenset[Layer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, attack: str
) -> None:
    """Of the second attack it is normal to die; not to have begun is something else."""
    broken = tmp_path / "attack.sh"
    await asyncio.to_thread(broken.write_text, "echo no weapon here >&2; exit 3")
    monkeypatch.setitem(PROGRAMS, "sh", broken)
    launcher = SandboxLauncher(machine, spares=0)
    await launcher.start()
    try:
        chosen = [each for each in ATTACKS if each.name == attack]
        python, sh = await attack_all(launcher, chosen, ["python", "sh"])
    finally:
        await launcher.close()
    assert python.outcome is Outcome.STOPPED
    assert sh.outcome is Outcome.UNTRIED
    assert sh.detail == "its program ended with status 3: no weapon here"


@pytest.mark.slow
async def test_an_interpreter_that_is_not_in_the_sandbox_is_a_program_that_does_not_start(
    machine: frozenset[Layer], tmp_path: Path
) -> None:
    launcher = SandboxLauncher(machine, spares=0)
    await launcher.start()
    spec = LaunchSpec("acme", ("/usr/bin/no-such-program",), {}, LIMITS)
    try:
        with pytest.raises(ProgramError, match="no-such-program does not exist in the sandbox"):
            await launcher.launch(spec)
    finally:
        await launcher.close()


def test_levels_of_layers() -> None:
    assert level_of(ALL) == Level.L3
    assert level_of(ALL - {Layer.LANDLOCK, Layer.UID}) == Level.L3
    assert level_of(ALL - {Layer.CGROUP}) == Level.L2
    assert level_of(ALL - {Layer.NAMESPACES}) == Level.L1
    for layer in (Layer.UID, Layer.LANDLOCK):
        assert level_of(ALL - {Layer.NAMESPACES, layer}) == Level.L0
    for layer in (Layer.SECCOMP, Layer.ENVIRONMENT, Layer.DESCRIPTORS, Layer.RLIMITS):
        assert level_of(ALL - {layer}) == Level.L0

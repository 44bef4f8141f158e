"""The probe tells the truth: with all layers, with some, and when a promise is not kept."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import IsolationError
from runner.launch import Level
from runner.sandbox.attacks import ATTACKS
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import ALL, Layer, level_of
from runner.sandbox.probe import Verdict, attack_all, level_reached, probe, proven_launcher
from tests.support.needs import missing

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
    command = [*prefix, python, "-c", _PROGRAM, str(ROOT)]
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


def test_the_level_reached_is_the_highest_that_kept_every_promise() -> None:
    kept = Verdict("a", "sh", True, "", Level.L1)
    assert level_reached(Level.L3, [kept]) == Level.L3
    assert level_reached(Level.L3, [kept, Verdict("b", "sh", False, "", Level.L3)]) == Level.L2
    assert level_reached(Level.L2, [kept, Verdict("b", "sh", False, "", Level.L3)]) == Level.L2
    assert level_reached(Level.L3, [kept, Verdict("b", "sh", False, "", Level.L1)]) == Level.L0
    assert level_reached(Level.L0, []) == Level.L0


def test_levels_of_layers() -> None:
    assert level_of(ALL) == Level.L3
    assert level_of(ALL - {Layer.LANDLOCK, Layer.UID}) == Level.L3
    assert level_of(ALL - {Layer.CGROUP}) == Level.L2
    assert level_of(ALL - {Layer.NAMESPACES}) == Level.L1
    for layer in (Layer.UID, Layer.LANDLOCK):
        assert level_of(ALL - {Layer.NAMESPACES, layer}) == Level.L0
    for layer in (Layer.SECCOMP, Layer.ENVIRONMENT, Layer.DESCRIPTORS, Layer.RLIMITS):
        assert level_of(ALL - {layer}) == Level.L0

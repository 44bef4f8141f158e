"""What install.sh and uninstall.sh ask of systemd, on a machine that is pretended: whatever was broken off or failed,
what runs in the end is what is installed, and what the operator stopped stays stopped."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.deploy_files import SYSTEMD
from tests.support.systemd_install import elsewhere

SYSTEMCTL: Final = """
echo "$@" >>{root}/asked
case $1 in
is-active) cat {root}/active; [ "$(cat {root}/active)" = active ] ;;
list-units) cat {root}/instances ;;
*) ! grep -qxF -e "$*" {root}/refused ;;
esac
"""
PYTHON: Final = """
case "$1 $2" in "-m venv") ;; *) exit 0 ;; esac
mkdir -p "$3/bin"
printf '#!/bin/sh\\n' >"$3/bin/functory"
cp "$3/bin/functory" "$3/bin/python"
chmod +x "$3/bin/functory" "$3/bin/python"
"""


class Ran(NamedTuple):
    status: int
    said: str
    asked: list[str]
    """Of systemctl, but for questions."""


class Machine:
    """A source tree with one file, programs that pretend, and places for what is installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "source"
        self.places = {name: str(root / name) for name in ("prefix", "etc", "state", "units", "bin")}
        for name in ("handlers", "journal", "runner", "scheduler", "store", "vocabulary", "docs", "functory"):
            (self.source / name).mkdir(parents=True)
        for name in ("requirements.lock", "pyproject.toml", "docs/operations.md"):
            (self.source / name).touch()
        shutil.copytree(SYSTEMD, self.source / "deploy" / "systemd")
        (self.source / "deploy" / "preflight.sh").touch()
        self.change_source("1.0")
        self.programs = root / "programs"
        self.programs.mkdir()
        for name, does in {
            "id": "echo 0",
            "systemd-sysusers": "true",
            "runuser": "true",
            "install": 'for last; do :; done; case $1 in -d) mkdir -p "$last" ;; *) touch "$last" ;; esac',
            "realpath": elsewhere(root),
            "python3": PYTHON,
            "systemctl": SYSTEMCTL.format(root=root),
        }.items():
            (self.programs / name).write_text(f"#!/bin/sh\n{does}\n")
            (self.programs / name).chmod(0o755)
        self.is_now("inactive")

    def change_source(self, version: str) -> None:
        (self.source / "functory" / "__init__.py").write_text(f'__version__ = "{version}"\n')

    def is_now(self, state: str, *instances: str, refuses: str = "") -> None:
        """What functory.service is, the rows of its instances, and an order that fails."""
        (self.root / "active").write_text(f"{state}\n")
        (self.root / "instances").write_text("".join(f"{row}\n" for row in instances))
        (self.root / "refused").write_text(f"{refuses}\n" if refuses else "")

    def run(self, script: str = "install.sh", *more: str, **places: str) -> Ran:
        asked = self.root / "asked"
        asked.write_text("")
        flags = [part for name, place in (self.places | places).items() for part in (f"--{name}", place)]
        environ = os.environ | {"PATH": f"{self.programs}:{os.environ['PATH']}"}
        command = ["sh", str(self.source / "deploy" / "systemd" / script), *flags, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=self.root)
        orders = [line for line in asked.read_text().splitlines() if not line.startswith(("is-active", "list-units"))]
        return Ran(done.returncode, done.stdout + done.stderr, [it for it in orders if it != "daemon-reload"])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def installed(machine: Machine) -> Machine:
    ran = machine.run()
    assert (ran.status, ran.asked) == (0, ["enable --quiet functory.service", "restart functory.service"]), ran.said
    machine.is_now("active")
    ran = machine.run()
    assert (ran.status, ran.asked) == (0, []), ran.said
    return machine


@pytest.mark.parametrize("state", ["active", "activating", "failed"])
def test_an_upgrade_that_was_broken_off_is_finished_by_the_next_run(installed: Machine, state: str) -> None:
    installed.change_source("1.1")
    installed.is_now(state, refuses="daemon-reload")
    broken_off = installed.run()
    assert (broken_off.status, broken_off.asked) == (1, [])
    assert "in use:" in broken_off.said
    installed.is_now(state)
    ran = installed.run()
    assert (ran.status, ran.asked) == (0, ["restart functory.service"])
    installed.is_now("active")
    assert installed.run().asked == []


def test_a_first_install_that_was_broken_off_is_started_by_the_next_run(machine: Machine) -> None:
    machine.is_now("inactive", refuses="daemon-reload")
    assert machine.run().status == 1
    machine.is_now("inactive")
    assert machine.run().asked == ["enable --quiet functory.service", "restart functory.service"]


def test_files_alone_are_started_by_the_next_run_of_all(machine: Machine) -> None:
    ran = machine.run("install.sh", "--files-only")
    assert (ran.status, ran.asked) == (0, []), ran.said
    assert machine.run().asked == ["enable --quiet functory.service", "restart functory.service"]
    machine.is_now("active")
    assert machine.run().asked == []


@pytest.mark.parametrize("is_broken_off", [True, False], ids=["after an upgrade that was broken off", "an upgrade"])
def test_files_alone_are_followed_by_a_restart_in_the_next_run_of_all(installed: Machine, is_broken_off: bool) -> None:
    installed.change_source("1.1")
    if is_broken_off:
        installed.is_now("active", refuses="daemon-reload")
        assert installed.run().status == 1
        installed.is_now("active")
    ran = installed.run("install.sh", "--files-only")
    assert (ran.status, ran.asked) == (0, []), ran.said
    assert installed.run().asked == ["restart functory.service"]
    assert installed.run().asked == []


def test_one_that_does_not_restart_does_not_keep_the_others_from_it(installed: Machine) -> None:
    installed.change_source("1.1")
    instances = [f"functory@{name}.service loaded active running Functory" for name in "xy"]
    every = [f"restart functory{name}.service" for name in ("", "@x", "@y")]
    for refused in every[:2]:
        installed.is_now("active", *instances, refuses=refused)
        ran = installed.run()
        assert (ran.status, ran.asked) == (1, every)
        assert f"not restarted: {refused.removeprefix('restart ')} " in ran.said
        assert "done" not in ran.said
    installed.is_now("active", *instances)
    assert installed.run().asked == every
    assert installed.run().asked == []


def test_a_release_that_is_built_again_is_followed_by_a_restart(installed: Machine) -> None:
    (functory,) = Path(installed.places["prefix"], "releases").glob("*/bin/functory")
    functory.write_text("#!/bin/sh\nexit 1\n")
    ran = installed.run()
    assert ("building" in ran.said, ran.asked) == (True, ["restart functory.service"])


def test_what_the_operator_stopped_stays_stopped(installed: Machine) -> None:
    for version in ("1.1", "1.1"):
        installed.change_source(version)
        installed.is_now("inactive")
        ran = installed.run()
        assert (ran.status, ran.asked) == (0, [])
        assert "functory.service is stopped and stays so" in ran.said


@pytest.mark.parametrize(
    ("option", "place", "because"),
    [
        ("state", "apart/home/functory", "does not see"),
        ("state", "apart/root", "does not see"),
        ("prefix", "apart/var/tmp/functory", "does not see"),
        ("prefix", "apart/tmp/functory", "does not see"),
        ("etc", "apart/run/user/0/functory", "does not see"),
        ("state", "my data", "letters, digits"),
        ("units", "100%", "letters, digits"),
        ("bin", "a|b", "letters, digits"),
        ("prefix", "a&b", "letters, digits"),
    ],
)
def test_a_place_where_the_service_cannot_be_is_refused_before_anything_changes(
    machine: Machine, option: str, place: str, because: str
) -> None:
    before = sorted(machine.root.iterdir())
    ran = machine.run(**{option: str(machine.root / place)})
    assert (ran.status, ran.asked) == (1, [])
    assert because in ran.said
    assert sorted(machine.root.iterdir()) == sorted([*before, machine.root / "asked"])


def test_places_may_be_named_from_here(machine: Machine) -> None:
    ran = machine.run(**{name: name for name in machine.places})
    assert ran.status == 0, ran.said
    unit = Path(machine.places["units"], "functory.service").read_text()
    assert f"ReadWritePaths={machine.places['state']}\n" in unit
    assert f"ExecStart={machine.places['prefix']}/current/bin/functory " in unit
    assert Path(machine.places["bin"], "functory").resolve().is_file()
    assert machine.run("uninstall.sh", **{name: name for name in machine.places}).status == 0
    assert not Path(machine.places["bin"], "functory").is_symlink()
    assert not Path(machine.places["prefix"]).exists()


def test_uninstall_does_not_stumble_over_what_failed_and_is_gone(installed: Machine) -> None:
    gone = "disable --now --quiet functory@x.service"
    installed.is_now("active", "functory@x.service not-found failed failed functory@x.service", refuses=gone)
    ran = installed.run("uninstall.sh")
    assert ran.status == 0, ran.said
    assert gone not in ran.asked
    assert "reset-failed functory.service functory@*.service" in ran.asked

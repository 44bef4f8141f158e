"""The systemd form: units that systemd accepts and finds hardened, an install that can be repeated, and an uninstall
that keeps what is the operator's. `make machine` goes further and boots a machine with systemd."""

import asyncio
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from functory.config import load_config
from tests.support.command_line import clean_environ
from tests.support.deploy_files import SYSTEMD
from tests.support.needs import need_command
from tests.support.notify_socket import notify_socket
from tests.support.systemd_install import elsewhere

UNITS = ("functory.service", "functory@.service")
MAX_EXPOSURE = 3.5
"""Of 10, by `systemd-analyze security`; below 4 it says OK. What the sandbox needs is most of the rest."""


def settings_of(unit: str) -> list[tuple[str, str]]:
    return lines_of((SYSTEMD / unit).read_text())


def lines_of(text: str) -> list[tuple[str, str]]:
    lines = text.splitlines()
    return [(name, value) for name, _, value in (line.partition("=") for line in lines if re.match(r"[A-Z]\w+=", line))]


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit(unit: str, tmp_path: Path) -> None:
    """Without a word of complaint; the program is one that is there."""
    systemd_analyze = need_command("systemd-analyze", "systemd")
    copy = tmp_path / unit.replace("@", "@one")
    copy.write_text((SYSTEMD / unit).read_text().replace("/opt/functory/current/bin/functory", "/bin/true"))
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", UNITS)
def test_what_the_unit_may_do_is_bounded(unit: str, tmp_path: Path) -> None:
    systemd_analyze = need_command("systemd-analyze", "systemd")
    copy = tmp_path / unit.replace("@", "@one")
    copy.write_text((SYSTEMD / unit).read_text())
    command = [systemd_analyze, "security", "--offline=true", "--json=short", "--no-pager", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    exposure = sum(float(row["exposure"]) for row in json.loads(done.stdout) if row["exposure"])
    limit = subprocess.run(
        [*command[:3], f"--threshold={round(MAX_EXPOSURE * 10)}", "--no-pager", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert limit.returncode == 0, limit.stdout[-200:]
    assert exposure > 0, "the report was empty"


@pytest.mark.parametrize("unit", UNITS)
def test_nothing_that_the_sandbox_needs_is_taken_away(unit: str) -> None:
    """Each of these was tried under systemd and left tenants without isolation."""
    given = dict(settings_of(unit))
    for breaks in ("RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "ProtectHostname"):
        assert breaks not in given
    assert "AF_NETLINK" in given["RestrictAddressFamilies"], "bubblewrap brings loopback up with it"
    assert "@mount" not in given["SystemCallFilter"]
    assert given["Delegate"] == "cpu memory pids"
    assert given["OOMPolicy"] == "continue", "one context out of memory would stop them all"


def test_the_template_differs_only_where_it_must() -> None:
    one, several = (settings_of(unit) for unit in UNITS)
    differing = {name for name, value in set(one) ^ set(several)}
    names = {"Description", "ExecStart", "StateDirectory", "WorkingDirectory", "EnvironmentFile"}
    assert differing == names


def test_the_times_of_the_unit_suit_the_daemon() -> None:
    """Stopping has its time, and so has a call to the store before the watchdog loses patience."""
    given, settings = dict(settings_of(UNITS[0])), load_config({}, {}).settings
    assert given["TimeoutStopSec"] == "90s"
    assert 2 * settings.grace_s + settings.lease_s <= 90
    assert given["WatchdogSec"] == "5min"
    assert given["Restart"] == "always"


def test_the_settings_file_is_one(tmp_path: Path) -> None:
    settings = load_config({}, {}, SYSTEMD / "functory.toml").settings
    assert (settings.min_isolation, settings.port, settings.status_port) == ("L2", 8484, 8485)


class Installed:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = {name: root / name for name in ("prefix", "etc", "state", "units", "bin")}

    def run(self, script: str) -> str:
        flags = [part for name, place in self.places.items() for part in (f"--{name}", str(place))]
        command = ["sh", str(SYSTEMD / script), *flags, "--files-only"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TMPDIR": str(self.root), "PIP_NO_COMPILE": "1"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    machine = Installed(tmp_path_factory.mktemp("machine"))
    machine.run("install.sh")
    return machine


@pytest.mark.slow
class TestInstall:
    """In this order: the last one removes it."""

    @pytest.fixture
    def exec_start(self, installed: Installed) -> list[str]:
        unit = (installed.places["units"] / "functory.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        assert command
        (installed.root / "functory.store").write_text(f"sqlite:///{installed.root}/by-credential.db")
        return shlex.split(command[1])

    async def test_what_the_unit_starts_comes_up_and_goes_down(
        self, installed: Installed, exec_start: list[str]
    ) -> None:
        async with notify_socket() as manager:
            environ = clean_environ() | {
                "NOTIFY_SOCKET": manager.address,
                "FUNCTORY_PORT": "0",
                "FUNCTORY_STATUS_PORT": "0",
                "FUNCTORY_MIN_ISOLATION": "L0",
                "FUNCTORY_ALL_TENANTS_TRUSTED": "true",
                "CREDENTIALS_DIRECTORY": str(installed.root),
            }
            process = await asyncio.create_subprocess_exec(*exec_start, env=environ, cwd=installed.root)
            try:
                await manager.hears("READY=1")
                process.terminate()
                assert await process.wait() == 0
            finally:
                if process.returncode is None:
                    process.kill()

    def test_it_used_the_store_of_its_credential_and_hid_its_key(self, installed: Installed) -> None:
        assert (installed.places["state"] / "operator.key").stat().st_mode & 0o777 == 0o600
        assert (installed.root / "by-credential.db").exists()

    @pytest.mark.parametrize("name", UNITS)
    def test_the_service_may_write_where_its_state_is(self, installed: Installed, name: str) -> None:
        """In another directory than systemd's own, which would be the only one that it may write to."""
        unit, state = installed.places["units"] / name, installed.places["state"]
        folder = f"{state}/%i" if "@" in name else str(state)
        given = dict(lines_of(unit.read_text()))
        assert not {"StateDirectory", "StateDirectoryMode"} & given.keys()
        assert (given["ReadWritePaths"], given["WorkingDirectory"]) == (str(state), f"-{folder}")
        assert given["ExecStart"].endswith(f" --data-dir {folder}")
        assert given["ProtectSystem"] == "strict"
        copy = installed.root / name.replace("@", "@one")
        copy.write_text(unit.read_text())
        command = [need_command("systemd-analyze", "systemd"), "verify", "--man=no", str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_a_second_install_changes_nothing(self, installed: Installed) -> None:
        toml = installed.places["etc"] / "functory.toml"
        toml.write_text(toml.read_text() + '\nlease = "40s"\n')
        before = snapshot(installed.root)
        said = installed.run("install.sh")
        assert snapshot(installed.root) == before
        assert "building" not in said

    def test_only_a_whole_release_counts_as_installed(self, installed: Installed) -> None:
        """An install that was interrupted leaves no mark, and is done again from the start."""
        (stamp,) = (installed.places["prefix"] / "releases").glob("*/.complete")
        assert (installed.places["prefix"] / "current").resolve() == stamp.parent
        script = (SYSTEMD / "install.sh").read_text()
        assert script.index('rm -rf "$release"') < script.index('touch "$release/.complete"')

    def test_uninstall_keeps_settings_and_data(self, installed: Installed) -> None:
        kept = snapshot(installed.places["etc"]) | snapshot(installed.places["state"])
        installed.run("uninstall.sh")
        assert snapshot(installed.places["etc"]) | snapshot(installed.places["state"]) == kept
        assert installed.places["state"] / "operator.key" in kept
        assert not installed.places["prefix"].exists()
        assert not list(installed.places["units"].iterdir())
        assert not list(installed.places["bin"].iterdir())
        installed.run("uninstall.sh")


class PretendedRoot:
    """Runs install.sh as root of a machine with systemd, as far as it can tell. It ends at the release at the latest:
    there is no place for it."""

    def __init__(self, folder: Path, owner: int, *, may_write: bool) -> None:
        """owner: of every directory."""
        self.folder = folder
        programs = {
            "id": "echo 0",
            "systemd-sysusers": "true",
            "stat": f"echo {owner}",
            "install": f'echo "$@" >>{folder}/given',
            "runuser": "true" if may_write else "false",
            "realpath": elsewhere(folder),
        }
        (folder / "programs").mkdir()
        for name, does in programs.items():
            program = folder / "programs" / name
            program.write_text(f"#!/bin/sh\n{does}\n")
            program.chmod(0o755)
        (folder / "file").touch()

    def install(self, state: Path) -> str:
        """Returns what it says."""
        places = {name: self.folder / "file" / name for name in ("prefix", "etc", "units", "bin")} | {"state": state}
        flags = [part for name, place in places.items() for part in (f"--{name}", str(place))]
        environ = os.environ | {"PATH": f"{self.folder}/programs:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", str(SYSTEMD / "install.sh"), *flags], capture_output=True, text=True, check=False, env=environ
        )
        assert done.returncode != 0
        return done.stdout + done.stderr

    @property
    def given(self) -> str:
        """The directories that became the service's, and how."""
        path = self.folder / "given"
        return path.read_text().strip() if path.exists() else ""


@pytest.mark.parametrize(("exists", "holds", "owner"), [(False, "", 0), (True, "", 0), (True, "", 1), (True, "x", 0)])
def test_a_place_for_the_data_that_is_new_or_empty_becomes_the_services(
    tmp_path: Path, exists: bool, holds: str, owner: int
) -> None:
    machine, state = PretendedRoot(tmp_path, owner, may_write=True), tmp_path / "state"
    if exists:
        state.mkdir()
    if holds:
        (state / holds).touch()
    assert "building" in machine.install(state)
    is_free = not exists or (not holds and owner == 0)
    assert machine.given == (f"-d -o functory -g functory -m 0700 {state}" if is_free else "")


def test_a_place_for_the_data_that_the_service_cannot_write_to_is_refused_first(tmp_path: Path) -> None:
    machine = PretendedRoot(tmp_path, 0, may_write=False)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "x").touch()
    said = machine.install(tmp_path / "state")
    assert f"user functory cannot write to {tmp_path}/state" in said
    assert "building" not in said


def snapshot(directory: Path) -> dict[Path, tuple[int, int]]:
    """Every file with the time of its last change; what python compiles on the way does not count."""
    return {
        path: (status.st_mtime_ns, status.st_size)
        for path in directory.rglob("*")
        if path.suffix != ".pyc" and not path.is_dir() and (status := path.lstat())
    }

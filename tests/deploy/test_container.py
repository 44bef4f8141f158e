"""The container file: linted, non-root, locked; and what stands in a sandbox's way inside a container is told."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from functory.config import ENVIRONMENT_PREFIX, load_config, setting_fields
from runner.sandbox.layers import _namespaces_remedy
from runner.sandbox.syscalls import DENIED
from tests.support.command_line import clean_environ
from tests.support.deploy_files import DEPLOY, ROOT
from tests.support.needs import missing, need_command

CONTAINER = DEPLOY / "container"
TEXT = (CONTAINER / "Containerfile").read_text()


def test_the_linter_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, str(CONTAINER / "Containerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_is_locked_non_root_and_has_a_health_check() -> None:
    *_, final = TEXT.split("\nFROM ")
    assert re.findall(r"^USER (\S+)$", TEXT, re.MULTILINE) == ["10001:10001"]
    assert "pip install" not in final, "what runs has no pip"
    for line in re.findall(r"pip install .*", TEXT):
        assert "--require-hashes" in line or "--no-index" in line, line
    assert 'CMD ["functory", "health"' in final
    assert 'ENTRYPOINT ["tini", "--", "functory"]' in final


def test_what_it_copies_is_there_and_let_through() -> None:
    ignore = (CONTAINER / "Containerfile.dockerignore").read_text().splitlines()
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", TEXT, re.MULTILINE) for name in line.split()]
    assert len(copied) > 8
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignore, f"{name} is kept out of the build"
    packages = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert packages <= set(copied), "a package of ours is not in the image"


def test_its_settings_are_settings() -> None:
    given = dict(re.findall(r"(FUNCTORY_[A-Z_]+)=(\S+)", TEXT.split("\nFROM ")[-1]))
    assert given.keys() <= {ENVIRONMENT_PREFIX + name.upper() for name in setting_fields()}
    settings = load_config({}, given).settings
    assert (settings.host, settings.status_port) == ("0.0.0.0", 8485)  # noqa: S104 (inside the container)


def test_the_profile_of_the_daemon_denies_nothing_that_the_sandbox_uses() -> None:
    """A deny list, as contexts have one of their own on top, which denies more."""
    profile = json.loads((CONTAINER / "seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    (rule,) = profile["syscalls"]
    assert rule["action"] == "SCMP_ACT_ERRNO"
    used = {"clone", "clone3", "unshare", "mount", "umount2", "pivot_root", "setns", "sethostname", "seccomp", "prctl"}
    assert not used & set(rule["names"])
    assert {"bpf", "kexec_load", "ptrace", "init_module", "keyctl"} <= set(rule["names"])
    assert {"bpf", "ptrace", "keyctl"} <= set(DENIED)


def test_doctor_tells_what_a_container_lacks() -> None:
    """A runtime that covers parts of /proc, as all do by default."""
    need_command("bwrap", "bubblewrap")
    if os.geteuid() != 0:
        missing("root", "run this test as root: it covers a part of /proc in a mount namespace of its own")
    script = 'mount -t tmpfs tmpfs /proc/fs && exec "$0" -m functory doctor --brief --json'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environ(), cwd=ROOT)
    report = json.loads(done.stdout)
    namespaces = report["layers"]["namespaces"]
    assert namespaces["available"] is False
    assert "systempaths=unconfined" in namespaces["remedy"]
    assert "procMount: Unmasked" in namespaces["remedy"]


@pytest.mark.parametrize(
    "reason", ["bwrap: No permissions to create new namespace", "bwrap: setting up uid map: denied"]
)
def test_a_profile_that_forbids_namespaces_is_named(reason: str) -> None:
    assert "seccomp=deploy/container/seccomp.json" in _namespaces_remedy(reason)


@pytest.mark.slow
def test_root_of_a_user_namespace_is_isolated_like_an_ordinary_user() -> None:
    """As in rootless podman: it is root, has none of the uids that contexts would get, and may not mount."""
    unshare, setpriv = need_command("unshare", "util-linux"), need_command("setpriv", "util-linux")
    need_command("bwrap", "bubblewrap")
    as_root = [unshare, "--user", "--map-root-user", setpriv, "--bounding-set=-sys_admin"]
    if subprocess.run([*as_root, "true"], capture_output=True, check=False).returncode != 0:
        missing("the right to make user namespaces", "see docs/isolation.md")
    command = [*as_root, sys.executable, "-m", "functory", "doctor", "--brief", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environ(), cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["level"] in {"L2", "L3"}
    assert report["layers"]["uid"]["available"] is False
    assert "map them into the container" in report["layers"]["uid"]["remedy"]

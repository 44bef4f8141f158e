"""The layers of isolation: which there are, which this machine can give, and the level that a set of them
makes.

What is found here is only a promise of the machine; `runner.sandbox.probe` holds it to that.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runner.launch import Level
from runner.sandbox import cgroups, seccomp, uids
from runner.sandbox.inner import landlock

_BWRAP_TRIAL_S: Final = 10


class Layer(StrEnum):
    """In the order in which they are applied."""

    ENVIRONMENT = "environment"
    DESCRIPTORS = "descriptors"
    CGROUP = "cgroup"
    RLIMITS = "rlimits"
    UID = "uid"
    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"


ALL: Final = frozenset(Layer)


@dataclass(frozen=True, slots=True)
class LayerState:
    """Whether this machine can give a layer; if not, why, and how to get it."""

    layer: Layer
    available: bool
    detail: str
    remedy: str = ""


def level_of(layers: AbstractSet[Layer]) -> Level:
    """The level that these layers make, if they hold."""
    basic = {Layer.ENVIRONMENT, Layer.DESCRIPTORS, Layer.RLIMITS, Layer.SECCOMP}
    if basic | {Layer.NAMESPACES, Layer.CGROUP} <= layers:
        return Level.L3
    if basic | {Layer.NAMESPACES} <= layers:
        return Level.L2
    if basic | {Layer.UID, Layer.LANDLOCK} <= layers:
        return Level.L1
    return Level.L0


def detect() -> tuple[LayerState, ...]:
    """Every layer with its state.

    Starts a process or two and touches the cgroup tree: not for the event loop.
    """
    always = "needs nothing of the machine"
    checks: dict[Layer, Callable[[], LayerState]] = {
        Layer.ENVIRONMENT: lambda: LayerState(Layer.ENVIRONMENT, True, always),
        Layer.DESCRIPTORS: lambda: LayerState(Layer.DESCRIPTORS, True, always),
        Layer.CGROUP: _detect_cgroup,
        Layer.RLIMITS: lambda: LayerState(Layer.RLIMITS, True, always),
        Layer.UID: _detect_uid,
        Layer.NAMESPACES: _detect_namespaces,
        Layer.LANDLOCK: _detect_landlock,
        Layer.SECCOMP: _detect_seccomp,
    }
    return tuple(checks[layer]() for layer in Layer)


def available(states: tuple[LayerState, ...]) -> frozenset[Layer]:
    return frozenset(state.layer for state in states if state.available)


def _detect_cgroup() -> LayerState:
    try:
        found = cgroups.find()
        found.open()
        try:
            found.create("trial", memory_bytes=1 << 26, processes=8).remove()
        finally:
            found.close()
    except Exception as error:  # noqa: BLE001  # whatever stands in the way is the answer to the question
        return LayerState(
            Layer.CGROUP,
            False,
            str(error),
            "run as root, as a systemd service with Delegate=cpu memory pids, or in a container with a writable cgroup",
        )
    return LayerState(Layer.CGROUP, True, f"version {found.version}")


def _detect_uid() -> LayerState:
    if os.geteuid() != 0:
        return LayerState(
            Layer.UID,
            False,
            "not running as root",
            "start the daemon as root: it gives every context its own uid",
        )
    if not uids.are_mapped():
        return LayerState(
            Layer.UID,
            False,
            f"running as root of a user namespace without the uids from {uids.DEFAULT_BASE:#x} on",
            "map them into the container, or run it without a user namespace (docker: --userns=host)",
        )
    return LayerState(Layer.UID, True, "running as root, each context gets a uid of its own")


def _detect_namespaces() -> LayerState:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return LayerState(
            Layer.NAMESPACES, False, "bubblewrap is not installed", "install it: apt-get install bubblewrap"
        )
    trial = [bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/"]
    trial += ["--proc", "/proc", "--", "/bin/true"]
    try:
        done = subprocess.run(trial, env={}, capture_output=True, timeout=_BWRAP_TRIAL_S, check=False)  # noqa: S603  # fixed command
    except (OSError, subprocess.TimeoutExpired) as error:
        return LayerState(Layer.NAMESPACES, False, f"bubblewrap does not run: {error}", "see `bwrap --help`")
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()[:300]
        return LayerState(Layer.NAMESPACES, False, f"bubblewrap was refused: {reason}", _namespaces_remedy(reason))
    return LayerState(Layer.NAMESPACES, True, bwrap)


def _namespaces_remedy(reason: str) -> str:
    """By what bubblewrap said: a container runtime covers parts of /proc, forbids the calls, or the kernel does."""
    if "mount proc" in reason:
        return (
            "uncover /proc, parts of which are hidden: docker with --security-opt systempaths=unconfined, podman with "
            "--security-opt unmask=ALL, Kubernetes with procMount: Unmasked and hostUsers: false, systemd without "
            "ProtectKernelTunables= and ProtectKernelLogs="
        )
    return (
        "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces, the AppArmor "
        "profile for bwrap; in a container a seccomp profile that has them (--security-opt "
        "seccomp=deploy/container/seccomp.json) and apparmor=unconfined"
    )


def _detect_landlock() -> LayerState:
    abi = landlock.abi()
    if abi == 0:
        return LayerState(
            Layer.LANDLOCK,
            False,
            "the kernel does not offer Landlock",
            "boot with `landlock` in lsm= (Linux 5.13 or later)",
        )
    missing = (
        "" if landlock.keeps_unix_sockets() else "; signals and abstract sockets are covered from ABI 6 (Linux 6.12) on"
    )
    return LayerState(Layer.LANDLOCK, True, f"ABI {abi}{missing}")


def _detect_seccomp() -> LayerState:
    if not seccomp.supported():
        return LayerState(Layer.SECCOMP, False, f"no filter for {os.uname().machine}", "run on x86_64 or aarch64")
    return LayerState(Layer.SECCOMP, True, f"filter for {os.uname().machine}")

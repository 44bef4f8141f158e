"""The resource limits of one context: those that the kernel keeps per process, whatever else counts for the tree."""

import resource
from collections.abc import Set as AbstractSet
from typing import Final

from runner.launch import Limits
from runner.sandbox.layers import Layer
from runner.sandbox.room import OVERHEAD_PROCESSES

_LOCKED_BYTES: Final = 1 << 16


def of(limits: Limits, use: AbstractSet[Layer]) -> list[tuple[int, int]]:
    """(resource, value) for a context with these layers."""
    chosen = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_MEMLOCK, _LOCKED_BYTES),
        (resource.RLIMIT_RTPRIO, 0),
    ]
    if use & {Layer.UID, Layer.NAMESPACES}:  # else it would count every process of the daemon's user
        with_init = OVERHEAD_PROCESSES if Layer.NAMESPACES in use else 0  # where it has the same uid
        chosen.append((resource.RLIMIT_NPROC, limits.processes + with_init))
    if Layer.CGROUP not in use:  # per process, without files and with what is reserved, so second best
        chosen.append((resource.RLIMIT_DATA, limits.memory_bytes + limits.reserved_bytes))
    if limits.cpu_s:
        chosen.append((resource.RLIMIT_CPU, limits.cpu_s))
    return chosen

"""What one context occupies on the machine: a cgroup, a uid, a scratch directory; given back when it has
ended.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from runner.launch import Limits
from runner.sandbox import cgroups
from runner.sandbox.memory import tree_bytes
from runner.sandbox.runtime import SCRATCH
from runner.sandbox.uids import Uids

_PREFIX: Final = "functory-scratch-"
OVERHEAD_PROCESSES: Final = 1  # the context's init


class Room:
    """Made before the context and outlives it; all file access, so for a worker thread but for
    `memory_bytes`.
    """

    def __init__(self, uids: Uids, uid: int | None) -> None:
        self._uids = uids
        self.uid = uid
        self.scratch = SCRATCH
        self._cgroup: cgroups.Cgroup | None = None

    def prepare(self, subtree: cgroups.Cgroups | None, name: str, limits: Limits, *, own_directory: bool) -> None:
        if subtree is not None:
            self._cgroup = subtree.create(
                name, memory_bytes=limits.memory_bytes, processes=limits.processes + OVERHEAD_PROCESSES
            )
        if own_directory:
            self.scratch = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
            if self.uid is not None:
                os.chown(self.scratch, self.uid, self.uid)

    def open_procs(self) -> list[int]:
        return [] if self._cgroup is None else self._cgroup.open_procs()

    def memory_bytes(self, pid: int) -> int:
        return tree_bytes(pid) if self._cgroup is None else self._cgroup.memory_bytes()

    def give_back(self) -> bool:
        """Ensures: cgroup, scratch and uid are free.

        Says whether the kernel killed for memory in the cgroup.
        """
        oom = False
        if self._cgroup is not None:
            oom = self._cgroup.oom_kills() > 0
            self._cgroup.remove()
        if self.scratch != SCRATCH:
            shutil.rmtree(self.scratch, ignore_errors=True)  # does not follow links; its processes have ended
        if self.uid is not None:
            self._uids.release(self.uid)
        return oom


def sweep() -> None:
    """Remove the scratch directories of daemons that were killed; with namespaces there are none."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists() and not directory.is_symlink():
            shutil.rmtree(directory, ignore_errors=True)

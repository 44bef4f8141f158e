"""What one context occupies on the machine: a cgroup, a uid, a scratch directory; given back when it has
ended.
"""

import os
from pathlib import Path
from typing import Final

from runner.errors import LaunchError
from runner.launch import Limits
from runner.sandbox import cgroups, handover
from runner.sandbox.processes import tree_bytes, tree_cpu_s, tree_tasks
from runner.sandbox.runtime import SCRATCH
from runner.sandbox.uids import Uids

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
            self.scratch = str(handover.open_folder("scratch"))
            try:
                Path(self.scratch).chmod(0o700)
                if self.uid is not None:
                    os.chown(self.scratch, self.uid, self.uid)
            except OSError as error:
                raise LaunchError(f"scratch space {self.scratch}: {error}; nothing was started") from error

    def open_procs(self) -> list[int]:
        return [] if self._cgroup is None else self._cgroup.open_procs()

    def memory_bytes(self, pid: int) -> int:
        return tree_bytes(pid) if self._cgroup is None else self._cgroup.memory_bytes()

    def oom_kills(self) -> int:
        """How often the kernel killed in the cgroup for memory."""
        return 0 if self._cgroup is None else self._cgroup.oom_kills()

    @property
    def is_metered(self) -> bool:
        return self._cgroup is not None

    def cpu_s(self, pid: int) -> float:
        """Processor time of the tree so far."""
        used_s = 0.0 if self._cgroup is None else self._cgroup.cpu_s()
        return used_s or tree_cpu_s(pid)

    def tasks(self, pid: int) -> int:
        """Processes and threads of the tree now, without the context's init."""
        count = 0 if self._cgroup is None else self._cgroup.tasks()
        return (count or tree_tasks(pid)) - OVERHEAD_PROCESSES

    def set_frozen(self, *, frozen: bool) -> bool:
        """False where the machine cannot."""
        return self._cgroup is not None and self._cgroup.set_frozen(frozen=frozen)

    def give_back(self) -> bool:
        """Ensures: cgroup, scratch and uid are free.

        Says whether the kernel killed for memory in the cgroup.
        """
        oom = self.oom_kills() > 0
        if self._cgroup is not None:
            self._cgroup.remove()
        if self.scratch != SCRATCH:
            handover.remove(Path(self.scratch))  # its processes have ended
        if self.uid is not None:
            self._uids.release(self.uid)
        return oom

"""Names of what a daemon makes on the machine, by which a later one knows what a killed daemon left behind.

Several daemons may share a folder or a cgroup and not see each other's processes, each in a container of its own: a
process number means something only in its own namespace. So the name has both, and only what was made in the own
namespace is ever judged.
"""

import os
from pathlib import Path


def mark() -> str:
    """Part of the name of everything that this process makes and removes again."""
    return f"{os.getpid()}-{_namespace()}"


def is_left_over(marked: str) -> bool:
    """Whether what has a name that begins with this mark was made by a process that is gone."""
    pid, _, rest = marked.partition("-")
    return pid.isdigit() and rest.partition("-")[0] == _namespace() and not Path("/proc", pid).exists()


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)

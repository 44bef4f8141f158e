"""The attacks that the sandbox must stop, and from which level on it promises to.

The programs are beside this file, one per language, as tenants would write them: attack.py, attack.js and
attack.sh. `runner.sandbox.probe` runs them at the start of the daemon and for `functory doctor`, the suite in
`tests/security` runs them with layers switched off.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.launch import Level

_HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = {"python": _HERE / "attack.py", "node": _HERE / "attack.js", "sh": _HERE / "attack.sh"}


@dataclass(frozen=True, slots=True)
class Attack:
    """`stopped_from`: the lowest level that promises to stop it.

    `brief`: part of the probe at every start.
    """

    name: str
    languages: tuple[str, ...]
    stopped_from: Level = Level.L1
    brief: bool = False
    may_die: bool = False  # being killed for it is a way of being stopped


_ALL: Final = ("python", "node", "sh")
_PYTHON: Final = ("python",)

ATTACKS: Final = (
    Attack("read_file", _ALL, brief=True),
    Attack("read_tenant", _ALL, brief=True),
    Attack("hard_link", _ALL),
    Attack("write_outside", _ALL, brief=True),
    Attack("set_uid_program", _ALL),
    Attack("kernel_setting", _PYTHON),
    Attack("cgroup_escape", _PYTHON, brief=True),
    Attack("environment", _ALL, brief=True),
    Attack("environment_of_init", _ALL),
    Attack("environment_of_daemon", _ALL, brief=True),
    Attack("memory_of_daemon", _PYTHON),
    Attack("memory_by_call", _PYTHON),
    Attack("descriptors_of_daemon", _ALL),
    Attack("inherited_descriptors", _PYTHON, brief=True),
    Attack("signal_daemon", _ALL, brief=True),
    Attack("signal_neighbour", _ALL, brief=True),
    Attack("trace_neighbour", _PYTHON),
    Attack("shared_memory", _PYTHON),
    Attack("watch_files", _PYTHON),
    Attack("host_paths", _PYTHON),
    Attack("installed_packages", _PYTHON),
    Attack("survivor", _ALL, brief=True),
    Attack("user_namespace", ("python", "sh"), brief=True),
    Attack("mount", ("python", "sh")),
    Attack("kernel_surface", _PYTHON, brief=True),
    Attack("shared_disks", _PYTHON, brief=True),
    Attack("other_architecture", _PYTHON),
    Attack("fork_bomb", _ALL, brief=True),
    Attack("thread_bomb", _PYTHON),
    Attack("descriptor_bomb", ("python", "node")),
    Attack("memory", _ALL, brief=True, may_die=True),
    Attack("memory_of_tree", _PYTHON, Level.L3, brief=True, may_die=True),
    Attack("memory_of_files", _PYTHON, Level.L3, may_die=True),
    Attack("big_file", _ALL, may_die=True),
    Attack("fill_scratch", _ALL, Level.L2, may_die=True),
    Attack("fill_inodes", _ALL, Level.L2),
    Attack("raise_limits", _PYTHON),
    Attack("ignore_terminate", _ALL),
    Attack("tcp", _ALL, brief=True),
    Attack("mptcp", _PYTHON, brief=True),
    Attack("udp", _ALL, brief=True),
    Attack("ipv6", ("python", "node")),
    Attack("abstract_socket", _PYTHON, brief=True),
    Attack("path_socket", _PYTHON, brief=True),
    Attack("raw_socket", _PYTHON),
    Attack("netlink", _PYTHON),
    Attack("socket_pair", _PYTHON),
    Attack("datagram_pair", _PYTHON, brief=True),
    Attack("metadata_service", _PYTHON),
)

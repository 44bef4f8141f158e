"""What each layer is for: the attack that gets through without it, and does not with it.

Where two layers stop the same attack, it is shown with both away, and then with the one.
"""

import secrets
import socket
from collections.abc import Sequence

import pytest

from handlers.model import Handler
from runner.runner import Runner
from runner.sandbox.attacks import ATTACKS
from runner.sandbox.inner import landlock
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import ALL, Layer
from runner.sandbox.probe import attack_all
from tests.support.engines import jobs, run
from tests.support.needs import missing

pytestmark = pytest.mark.slow

# Without any layer these are stopped all the same, each by something that is always there.
ALWAYS_STOPPED = {
    ("set_uid_program", "python"): "no_new_privs is set whatever the layers",
    ("set_uid_program", "node"): "no_new_privs",
    ("set_uid_program", "sh"): "no_new_privs",
    ("environment", "node"): "an exec gets the environment of the launch and no other",
    ("environment", "sh"): "an exec gets the environment of the launch and no other",
    (
        "survivor",
        "python",
    ): "the context's init is the subreaper of all its processes and kills until none is left",
    ("survivor", "node"): "init",
    ("survivor", "sh"): "init",
    ("ignore_terminate", "python"): "init",
    ("ignore_terminate", "node"): "init",
    ("ignore_terminate", "sh"): "init",
}
# And these depend on the machine: its pid 1 may be closed even to root, root may lack CAP_SYS_RESOURCE, there
# may be no route to the outside, or nothing installed.
MACHINE = {
    "environment_of_init",
    "raise_limits",
    "metadata_service",
    "ipv6",
    "other_architecture",
    "kernel_setting",
    "installed_packages",
}


async def through(use: frozenset[Layer], *names: str, languages: Sequence[str] = ("python",)) -> set[tuple[str, str]]:
    """The attacks (of these names, or all) that get through these layers."""
    launcher = SandboxLauncher(use, spares=0)  # every attack is a kind of its own: a stock would be made in vain
    await launcher.start()
    try:
        chosen = [attack for attack in ATTACKS if not names or attack.name in names]
        verdicts = await attack_all(launcher, chosen, languages)
    finally:
        await launcher.close()
    return {(verdict.attack, verdict.language) for verdict in verdicts if not verdict.stopped}


@pytest.mark.usefixtures("all_layers")
async def test_the_attacks_work_where_nothing_stops_them() -> None:
    """The control: an attack that fails everywhere would prove nothing."""
    got = await through(frozenset(), languages=("python", "sh"))
    expected = {(a.name, lang) for a in ATTACKS for lang in a.languages if lang != "node" and a.name not in MACHINE}
    assert expected - set(ALWAYS_STOPPED) - got == set()


@pytest.mark.usefixtures("all_layers")
@pytest.mark.parametrize(
    ("layer", "attack"),
    [
        (Layer.ENVIRONMENT, "environment"),
        (Layer.DESCRIPTORS, "inherited_descriptors"),
        (Layer.CGROUP, "memory_of_tree"),
        (Layer.RLIMITS, "descriptor_bomb"),
        (Layer.RLIMITS, "big_file"),
        (Layer.NAMESPACES, "fill_scratch"),
        (Layer.NAMESPACES, "fill_inodes"),
        (Layer.SECCOMP, "kernel_surface"),
        (Layer.SECCOMP, "netlink"),
        (Layer.SECCOMP, "shared_disks"),
    ],
)
async def test_without_the_layer_the_attack_gets_through(layer: Layer, attack: str) -> None:
    assert (attack, "python") in await through(ALL - {layer}, attack)
    # that it does not get through with all layers, test_attacks shows


@pytest.mark.usefixtures("all_layers")
@pytest.mark.parametrize(
    ("without", "layer", "attacks"),
    [
        # Files: the read-only root hides them, Landlock forbids them, the uid has no right to them.
        ({Layer.NAMESPACES, Layer.UID}, Layer.LANDLOCK, ("read_file", "read_tenant", "write_outside")),
        ({Layer.NAMESPACES, Layer.LANDLOCK}, Layer.UID, ("read_file", "signal_daemon", "cgroup_escape")),
        # Processes: another pid namespace, a Landlock scope, another uid.
        (
            {Layer.NAMESPACES, Layer.UID},
            Layer.LANDLOCK,
            ("signal_daemon", "signal_neighbour"),
        ),
        # The network: none in the namespace, no sockets by seccomp, no TCP by Landlock.
        ({Layer.SECCOMP, Layer.LANDLOCK}, Layer.NAMESPACES, ("tcp", "mptcp", "udp")),
        ({Layer.NAMESPACES, Layer.LANDLOCK}, Layer.SECCOMP, ("tcp", "mptcp", "udp")),
        # Unix sockets of the machine: not there, not by seccomp, not by Landlock if they are abstract.
        ({Layer.NAMESPACES, Layer.LANDLOCK}, Layer.SECCOMP, ("path_socket", "abstract_socket", "datagram_pair")),
        ({Layer.NAMESPACES, Layer.SECCOMP}, Layer.LANDLOCK, ("abstract_socket",)),
        ({Layer.SECCOMP, Layer.LANDLOCK}, Layer.NAMESPACES, ("path_socket", "abstract_socket", "datagram_pair")),
        # User namespaces: the limit of 0 in the context's own, the filter.
        ({Layer.SECCOMP}, Layer.NAMESPACES, ("user_namespace",)),
        (
            {Layer.NAMESPACES, Layer.UID, Layer.LANDLOCK},
            Layer.SECCOMP,
            ("user_namespace", "mount", "trace_neighbour"),
        ),
        # Processes in number: the cgroup counts them, and so does the limit of the uid.
        ({Layer.CGROUP}, Layer.RLIMITS, ("fork_bomb", "thread_bomb")),
        ({Layer.RLIMITS}, Layer.CGROUP, ("fork_bomb", "thread_bomb", "memory")),
    ],
    ids=lambda value: value.value if isinstance(value, Layer) else None,
)
async def test_either_layer_stops_it_and_without_both_it_gets_through(
    without: set[Layer], layer: Layer, attacks: tuple[str, ...]
) -> None:
    bare = await through(ALL - without - {layer}, *attacks)
    assert {(attack, "python") for attack in attacks} <= bare
    assert await through(ALL - without, *attacks) == set()


LISTENS_TO_ITSELF = """import socket
near = socket.socket(socket.AF_UNIX)
near.bind("\\0own")
near.listen()
socket.socket(socket.AF_UNIX).connect("\\0own")
"""
CONNECTS = "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0' + payload)"


@pytest.mark.usefixtures("all_layers")
@pytest.mark.parametrize(
    ("without", "keeps_them", "has_own"), [({Layer.LANDLOCK}, True, False), (set(), False, False), (set(), True, True)]
)
async def test_with_the_network_granted_nobody_elses_abstract_socket_is_reached(
    without: set[Layer], keeps_them: bool, has_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts then share the names of the machine's network. Where Landlock keeps them apart, they may have some."""
    if has_own and not landlock.keeps_unix_sockets():
        missing("Landlock ABI 6", "run Linux 6.12 or later")
    monkeypatch.setattr(landlock, "keeps_unix_sockets", lambda: keeps_them)  # as on a kernel that is older
    name = f"functory-test-{secrets.token_hex(8)}"
    runner = Runner(SandboxLauncher(ALL - without, spares=0))
    await runner.start()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        theirs = await run(runner, Handler("python", CONNECTS, network=True), jobs(name))
        own = await run(runner, Handler("python", LISTENS_TO_ITSELF, network=True), jobs("x"))
    await runner.close()
    assert theirs.exitcodes == [500]
    assert b"PermissionError" in theirs.results[0]
    assert own.exitcodes == [200 if has_own else 500]

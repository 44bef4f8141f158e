"""What each layer is for: the attack that gets through without it, and does not with it.

Where two layers stop the same attack, it is shown with both away, and then with the one.
"""

from collections.abc import Sequence

import pytest

from runner.sandbox.attacks import ATTACKS
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import ALL, Layer
from runner.sandbox.probe import attack_all

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
        ({Layer.NAMESPACES, Layer.LANDLOCK}, Layer.SECCOMP, ("path_socket", "abstract_socket")),
        ({Layer.NAMESPACES, Layer.SECCOMP}, Layer.LANDLOCK, ("abstract_socket",)),
        ({Layer.SECCOMP, Layer.LANDLOCK}, Layer.NAMESPACES, ("path_socket", "abstract_socket")),
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

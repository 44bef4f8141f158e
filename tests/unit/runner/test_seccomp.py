"""The seccomp filter, run by a small BPF machine: both architectures, every rule, without loading it
anywhere.
"""

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import IsolationError
from runner.sandbox import seccomp, syscalls

ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
COLUMN = {"x86_64": 0, "aarch64": 1}
ALLOW, KILL, DONE = "allow", "kill", "done"
MACHINES = ("x86_64", "aarch64")


def run(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> str:
    """What the kernel would answer to this system call: "allow", "kill", "done" without it, or the name of an error."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    accumulator, at = 0, 0
    while True:
        code, then, otherwise, value = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            action = value & 0xFFFF_0000
            return {0x7FFF_0000: ALLOW, 0x8000_0000: KILL}.get(action) or (
                errno.errorcode[value & 0xFFFF] if value & 0xFFFF else DONE
            )
        else:
            tests = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += then if tests[code] else otherwise


@pytest.mark.parametrize("machine", MACHINES)
def test_the_listed_calls_are_refused(machine: str) -> None:
    program = seccomp.build(network=False, namespaces=True, unix=True, machine=machine)
    for name, numbers in syscalls.DENIED.items():
        number = numbers[COLUMN[machine]]
        if number is not None:
            assert run(program, ARCH[machine], number) == "EPERM", name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("namespaces", [False, True])
def test_calls_that_reach_past_the_context_are_not_made(machine: str, namespaces: bool) -> None:
    """A context could have the disks of all synced without end. What it writes does not outlive it."""
    program = seccomp.build(network=False, namespaces=namespaces, unix=namespaces, machine=machine)
    for name, numbers in syscalls.NEEDLESS.items():
        assert run(program, ARCH[machine], numbers[COLUMN[machine]], (3,)) == DONE, name


@pytest.mark.parametrize("machine", MACHINES)
def test_another_architecture_is_killed_and_x32_is_refused(machine: str) -> None:
    program = seccomp.build(network=True, namespaces=True, unix=True, machine=machine)
    for arch in {0x4000_0003, 0x4000_0028, *ARCH.values()} - {ARCH[machine]}:  # i386, arm, the other one
        assert run(program, arch, 0) == KILL
    if machine == "x86_64":
        assert run(program, ARCH[machine], 0x4000_0000 | 39) == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("unix", [False, True])
def test_sockets(machine: str, network: bool, unix: bool) -> None:
    program = seccomp.build(network=network, namespaces=True, unix=unix, machine=machine)
    number = syscalls.SOCKET[COLUMN[machine]]
    granted = {socket.AF_UNIX} if unix else set()
    if network:
        granted |= {socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
    for family in range(64):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            expected = ALLOW if family in granted else "EPERM"
            assert run(program, ARCH[machine], number, (family, kind, 262)) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_with_a_proxy_there_is_tcp_and_nothing_else_of_the_network(machine: str) -> None:
    number = syscalls.SOCKET[COLUMN[machine]]
    program = seccomp.build(network=False, namespaces=True, unix=True, proxied=True, machine=machine)
    shared = seccomp.build(network=False, namespaces=False, unix=False, proxied=True, machine=machine)
    flags = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    for family in range(64):
        for kind in range(16):
            for protocol in (0, 1, 6, 17, 255, 262):
                is_tcp = (family, kind) == (socket.AF_INET, socket.SOCK_STREAM) and protocol in {0, 6}
                expected = ALLOW if is_tcp or family == socket.AF_UNIX else "EPERM"
                assert run(program, ARCH[machine], number, (family, kind | flags, protocol)) == expected
        assert run(shared, ARCH[machine], number, (family, socket.SOCK_STREAM, 0)) == "EPERM"
    assert run(program, ARCH[machine], syscalls.DENIED["ptrace"][COLUMN[machine]] or 0) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_no_family_is_hidden_in_the_upper_half_of_the_argument(machine: str) -> None:
    """The kernel takes an int: the upper 32 bits change nothing, for it or for the filter."""
    program = seccomp.build(network=False, namespaces=True, unix=True, machine=machine)
    number = syscalls.SOCKET[COLUMN[machine]]
    assert run(program, ARCH[machine], number, (socket.AF_INET | 1 << 32, 1, 0)) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_new_namespaces_and_terminals(machine: str) -> None:
    program = seccomp.build(network=False, namespaces=True, unix=True, machine=machine)
    arch, column = ARCH[machine], COLUMN[machine]
    for flag in (0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000):
        assert run(program, arch, syscalls.CLONE[column], (flag | 17,)) == "EPERM"
    assert run(program, arch, syscalls.CLONE[column], (0x0120_0011,)) == ALLOW  # fork
    assert run(program, arch, syscalls.CLONE[column], (0x003D_0F00,)) == ALLOW  # a thread
    assert run(program, arch, syscalls.CLONE3[column]) == "ENOSYS"
    assert run(program, arch, syscalls.IOCTL[column], (0, 0x5412)) == "EPERM"
    assert run(program, arch, syscalls.IOCTL[column], (0, 0x5401)) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_system_v_ipc_needs_a_namespace(machine: str) -> None:
    shared = seccomp.build(network=False, namespaces=False, unix=False, machine=machine)
    own = seccomp.build(network=False, namespaces=True, unix=True, machine=machine)
    for numbers in syscalls.SYSTEM_V_IPC.values():
        number = numbers[COLUMN[machine]]
        assert number is not None
        assert run(shared, ARCH[machine], number) == "EPERM"
        assert run(own, ARCH[machine], number) == ALLOW


@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.booleans())
def test_every_call_gets_an_answer(machine: str, arch: int, number: int, network: bool) -> None:
    program = seccomp.build(network=network, namespaces=True, unix=True, machine=machine)
    assert run(program, arch, number) in {ALLOW, KILL, DONE, "EPERM", "ENOSYS"}


def test_an_unknown_architecture_is_an_error_and_no_empty_filter() -> None:
    with pytest.raises(IsolationError, match="riscv64"):
        seccomp.build(network=False, namespaces=True, unix=True, machine="riscv64")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("unix", [False, True])
def test_socket_pairs_are_unix_ones(machine: str, network: bool, unix: bool) -> None:
    """Those that send datagrams can name others, and are there only where these are nobody else's."""
    program = seccomp.build(network=network, namespaces=False, unix=unix, machine=machine)
    kinds = {socket.SOCK_STREAM, socket.SOCK_SEQPACKET} if not unix else set(range(16))
    flags = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    for family in range(64):
        for kind in range(16):
            expected = ALLOW if family == socket.AF_UNIX and kind in kinds else "EPERM"
            for asked_kind in (kind, kind | flags, kind | 1 << 32):
                asked = (family, asked_kind, 0)
                assert run(program, ARCH[machine], syscalls.SOCKETPAIR[COLUMN[machine]], asked) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_nobody_watches_files(machine: str) -> None:
    program = seccomp.build(network=False, namespaces=True, unix=True, machine=machine)
    fcntl = syscalls.FCNTL[COLUMN[machine]]
    for command in (1024, 1026):
        assert run(program, ARCH[machine], fcntl, (3, command, 0)) == "EPERM"
    for command in (0, 1, 2, 3, 4, 1030, 1031):  # dup, flags, cloexec, pipe sizes
        assert run(program, ARCH[machine], fcntl, (3, command, 0)) == ALLOW

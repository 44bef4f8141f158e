"""The attacks, as a tenant would write them in python; run as `attack.py NAME FOLDER` inside a context.

An attack returns what it got hold of, or raises, or comes back with nothing. On the reply pipe go two lines: `trying`,
so that a program that did not even start is not taken for an attack that was stopped, then the verdict, `through: …` or
`stopped: …`. The targets are in the environment, FOLDER has the weapon that must be brought along. Every attack is
bounded: where nothing stops it, it says so and ends.
"""

import ctypes
import errno
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

REPLY_FD = 4
MEBIBYTE = 1 << 20
SCRATCH = os.getcwd()  # noqa: PTH109  # plain calls: an attack should show what it does

libc = ctypes.CDLL(None, use_errno=True)


def target(name: str) -> str:
    return os.environ["TARGET_" + name]


def number(name: str) -> int:
    return int(target(name))


def read(path: str, limit: int = 1 << 16) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def call(*arguments: int) -> int:
    result = int(libc.syscall(*(ctypes.c_long(argument) for argument in arguments)))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {arguments[0]}: {os.strerror(ctypes.get_errno())}")
    return result


def on_x86(there: int, elsewhere: int) -> int:
    return there if platform.machine() == "x86_64" else elsewhere


# --- files ------------------------------------------------------------------------------------------------


def read_file() -> str | None:
    """A file of the daemon that is closed to everybody else: the journal, the database, a key."""
    return found(read(target("SECRET_FILE")))


def read_tenant() -> str | None:
    """A file that another tenant left readable for the world."""
    return found(read(target("OPEN_FILE")))


def hard_link() -> str | None:
    """A second name for a file of the daemon, for the daemon to fall over."""
    os.link(target("OPEN_FILE"), f"{SCRATCH}/link")
    return "linked"


def write_outside() -> str | None:
    got = []
    for place in ("/", "/usr", "/etc", "/dev", "/proc", "/var/tmp", "/root", "/home", target("DIRECTORY")):  # noqa: S108
        path = os.path.join(place, f"attack-{os.getpid()}")  # noqa: PTH118
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError:
            continue
        os.unlink(path)  # noqa: PTH108
        got.append(place)
    return f"wrote to {got}" if got else None


def installed_packages() -> str | None:
    """What somebody installed beside the languages of this machine: nothing that a tenant may come to depend on."""
    got = []
    for path in target("INSTALLED").split(":"):
        try:
            got += [f"{path}/{name}" for name in os.listdir(path)]  # noqa: PTH208
        except OSError:
            continue
    outside = [path for path in sys.path if path.endswith("-packages")]
    return f"found {got[:3]}, searched {outside}" if got or outside else None


def set_uid_program() -> str | None:
    """A program that the machine runs as root, whoever starts it."""
    out = subprocess.run([f"{sys.argv[2]}/id", "-u"], capture_output=True, check=False)  # noqa: S603
    return "runs as root" if out.stdout.strip() == b"0" and os.getuid() != 0 else None


def kernel_setting() -> str | None:
    """The machine's sysctls, which belong to uid 0 even without any capability."""
    path = "/proc/sys/kernel/core_pattern"
    old = read(path)
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, old)
    return "wrote core_pattern"


def cgroup_escape() -> str | None:
    for path in target("CGROUP_PROCS").split(":"):
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, b"0")
    return "left the cgroup"


# --- other processes --------------------------------------------------------------------------------------


def environment() -> str | None:
    return found(read("/proc/self/environ") + repr(dict(os.environ)).encode())


def environment_of_init() -> str | None:
    return "read it" if read("/proc/1/environ") else None


def environment_of_daemon() -> str | None:
    return "read it" if read(f"/proc/{number('DAEMON_PID')}/environ") else None


def memory_of_daemon() -> str | None:
    fd = os.open(f"/proc/{number('DAEMON_PID')}/mem", os.O_RDONLY)
    os.lseek(fd, number("DAEMON_ADDRESS"), os.SEEK_SET)
    return found(os.read(fd, 64))


def memory_by_call() -> str | None:
    """process_vm_readv: the same, past the file system."""
    buffer = ctypes.create_string_buffer(64)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
    remote = (ctypes.c_size_t * 2)(number("DAEMON_ADDRESS"), 64)
    sysno = on_x86(310, 270)
    call(sysno, number("DAEMON_PID"), ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
    return found(buffer.raw)


def descriptors_of_daemon() -> str | None:
    return found(read(f"/proc/{number('DAEMON_PID')}/fd/{number('DAEMON_FD')}"))


def inherited_descriptors() -> str | None:
    got = []
    for fd in range(REPLY_FD + 1, 1024):
        try:
            os.fstat(fd)
        except OSError:
            continue
        got.append(fd)
    return f"open: {got}" if got else None


def signal_daemon() -> str | None:
    os.kill(number("DAEMON_PID"), 0)
    return "the daemon can be signalled"


def signal_neighbour() -> str | None:
    os.kill(number("NEIGHBOUR_PID"), 0)
    return "another tenant's process can be signalled"


def trace_neighbour() -> str | None:
    call(on_x86(101, 117), 0x4206, number("NEIGHBOUR_PID"), 0, 0)  # PTRACE_SEIZE: it does not even notice
    return "traced another tenant"


def shared_memory() -> str | None:
    """System V memory of another process, by its key."""
    libc.shmat.restype = ctypes.c_void_p
    identifier = call(on_x86(29, 194), number("SHM_KEY"), 0, 0)
    address = libc.shmat(identifier, None, 0o10000)  # SHM_RDONLY
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "shmat")
    return found(ctypes.string_at(address, 32))


def watch_files() -> str | None:
    """Hear of every program that another tenant starts: all contexts share the files of the runtime."""
    got = []
    for name, arguments in {
        "inotify_init1": (on_x86(294, 26), 0),
        "F_NOTIFY": (on_x86(72, 25), os.open("/usr/bin", os.O_RDONLY), 1026, 1),
        "F_SETLEASE": (on_x86(72, 25), os.open("/dev/null", os.O_RDONLY), 1024, 2),
    }.items():
        try:
            call(*arguments)
        except OSError as error:
            if error.errno == errno.EPERM:
                continue
        got.append(name)
    return f"let through: {got}" if got else None


def host_paths() -> str | None:
    """Where the daemon lies, by the command that init was started with."""
    command = read("/proc/1/cmdline")
    return f"init is {command[:80]!r}" if b"/" in command else None


def survivor() -> str | None:
    """Leave a process behind. Whether it lived on, the parent sees by the reply pipe that it holds open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.pause()
        os._exit(0)
    return None


# --- the kernel -------------------------------------------------------------------------------------------


def user_namespace() -> str | None:
    if libc.unshare(0x1000_0000) == 0:
        return "unshared"
    pid = call(on_x86(56, 220), 0x1000_0000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return "cloned"


def mount() -> str | None:
    if libc.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    libc.umount2(SCRATCH.encode(), 0)
    return "mounted"


def kernel_surface() -> str | None:
    """Calls with a long record of holes; each with arguments that do no harm if it is let through."""
    calls = {
        "bpf": (on_x86(321, 280), 0, 0, 0),
        "io_uring_setup": (425, 1, 0),
        "keyctl": (on_x86(250, 219), 0, 0xFFFF_FFFD, 0),
        "userfaultfd": (on_x86(323, 282), 1),
        "perf_event_open": (on_x86(298, 241), 0, 0, 0xFFFF_FFFF, 0xFFFF_FFFF, 0),
    }
    got = []
    for name, arguments in calls.items():
        try:
            call(*arguments)
        except OSError as error:
            if error.errno in {errno.EPERM, errno.ENOSYS}:
                continue
        got.append(name)
    return f"let through: {got}" if got else None


def shared_disks() -> str | None:
    """Have the disks of the machine synced and what others read taken out of its memory, without end, by a file that
    all contexts share; and use up what the machine has of something. Here by no file: who says so has been asked."""
    calls = {
        "syncfs": (on_x86(306, 267), -1),
        "fsync": (on_x86(74, 82), -1),
        "fdatasync": (on_x86(75, 83), -1),
        "fadvise64": (on_x86(221, 223), -1, 0, 0, 4),
        "io_setup": (on_x86(206, 0), 1, 0),
    }
    got = []
    for name, arguments in calls.items():
        try:
            call(*arguments)
        except OSError as error:
            if error.errno != errno.EPERM:
                got.append(name)
    return f"let through: {got}" if got else None


def other_architecture() -> str | None:
    """A 32-bit system call (getpid) from a 64-bit process, around a filter that looks at numbers only."""
    if platform.machine() != "x86_64":
        return None
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    pid = os.fork()
    if pid == 0:
        entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        os._exit(0 if entry() == os.getpid() else 1)
    _, status = os.waitpid(pid, 0)
    return "32-bit calls work" if status == 0 else None


# --- resources --------------------------------------------------------------------------------------------


def fork_bomb() -> str | None:
    count = 0
    try:
        for _ in range(number("PROCESSES") * 3):
            if os.fork() == 0:
                signal.pause()
                os._exit(0)
            count += 1
    except OSError:
        pass
    return f"{count} processes" if count > number("PROCESSES") else None


def thread_bomb() -> str | None:
    threading.stack_size(65536)
    stop = threading.Event()
    count = 0
    try:
        for _ in range(number("PROCESSES") * 3):
            threading.Thread(target=stop.wait, daemon=True).start()
            count += 1
    except RuntimeError:
        pass
    stop.set()
    return f"{count} threads" if count > number("PROCESSES") else None


def descriptor_bomb() -> str | None:
    fds = []
    try:
        for _ in range(number("OPEN_FILES") * 3):
            fds.append(os.open("/dev/null", os.O_RDONLY))  # noqa: PERF401  # what was got before the error counts
    except OSError:
        pass
    for fd in fds:
        os.close(fd)
    return f"{len(fds)} descriptors" if len(fds) > number("OPEN_FILES") else None


def memory() -> str | None:
    """Anonymous pages in one process."""
    wanted = number("MEMORY_BYTES") * 2
    hoard = [b"x" * MEBIBYTE for _ in range(wanted // MEBIBYTE)]
    return f"{len(hoard)} MiB"


def memory_of_tree() -> str | None:
    """The same, spread over processes that are each below the limit."""
    share = number("MEMORY_BYTES") * 2 // 4
    read_end, write_end = os.pipe()
    for _ in range(4):
        if os.fork() == 0:
            hoard = b"x" * share
            os.write(write_end, b"." if hoard else b"")
            os.close(write_end)  # so that the reader sees the end of those that were killed
            signal.pause()
    os.close(write_end)
    count = 0
    while count < 4 and os.read(read_end, 1):
        count += 1
    try:
        alive = os.waitpid(-1, os.WNOHANG) == (0, 0)  # or one was killed after it had reported, for another
    except ChildProcessError:
        alive = False
    return f"{4 * share} bytes in four processes" if count == 4 and alive else None


def memory_of_files() -> str | None:
    """Memory that belongs to no process: anonymous files. Bounded for the tree by the cgroup only."""
    fds = []
    written = 0
    piece = bytes(MEBIBYTE)
    step = min(number("FILE_BYTES"), 4 * MEBIBYTE)
    while written < number("MEMORY_BYTES") * 2:
        fds.append(os.memfd_create("hoard"))
        for _ in range(step // MEBIBYTE):
            written += os.write(fds[-1], piece)
    return f"{written} bytes in memory files"


def big_file() -> str | None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.open(f"{SCRATCH}/big", os.O_CREAT | os.O_WRONLY, 0o600)
    written = 0
    while written <= number("FILE_BYTES") * 2:
        written += os.write(fd, bytes(MEBIBYTE))
    return f"a file of {written} bytes"


def fill_scratch() -> str | None:
    written = 0
    step = min(number("FILE_BYTES"), MEBIBYTE)
    while written < number("SCRATCH_BYTES") * 2:
        fd = os.open(f"{SCRATCH}/fill{written}", os.O_CREAT | os.O_WRONLY, 0o600)
        written += os.write(fd, bytes(step))
        os.close(fd)
    return f"{written} bytes of files"


def fill_inodes() -> str | None:
    wanted = number("SCRATCH_BYTES") // 4096 * 2
    for count in range(wanted):
        os.close(os.open(f"{SCRATCH}/i{count}", os.O_CREAT | os.O_WRONLY, 0o600))
    return f"{wanted} empty files"


def raise_limits() -> str | None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    return f"from {soft}"


def ignore_terminate() -> str | None:
    """Never end by itself and never when asked. The parent asks, then kills."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(REPLY_FD, b"stopped: not yet\n")
    while True:
        time.sleep(60)


# --- network ----------------------------------------------------------------------------------------------


def connect(family: int, kind: int, protocol: int, address: tuple[str, int] | str) -> str | None:
    with socket.socket(family, kind, protocol) as connection:
        connection.settimeout(0.5)
        connection.connect(address)
        if kind == socket.SOCK_DGRAM:
            connection.send(b"?")
        return f"connected to {address!r}"


def tcp() -> str | None:
    return connect(socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", number("TCP_PORT")))


def mptcp() -> str | None:
    return connect(socket.AF_INET, socket.SOCK_STREAM, 262, ("127.0.0.1", number("TCP_PORT")))


def udp() -> str | None:
    return connect(socket.AF_INET, socket.SOCK_DGRAM, 0, ("127.0.0.1", number("TCP_PORT")))


def ipv6() -> str | None:
    return connect(socket.AF_INET6, socket.SOCK_STREAM, 0, ("::1", number("TCP6_PORT")))


def abstract_socket() -> str | None:
    return connect(socket.AF_UNIX, socket.SOCK_STREAM, 0, "\0" + target("ABSTRACT"))


def path_socket() -> str | None:
    """A service of the machine that listens for everybody, such as the system bus."""
    return connect(socket.AF_UNIX, socket.SOCK_STREAM, 0, target("SOCKET_PATH"))


def raw_socket() -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "made"


def netlink() -> str | None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
    return "made"


def socket_pair() -> str | None:
    """A pair of another family: a part of the kernel that is loaded for it, and has had its holes."""
    got = []
    for family in (socket.AF_INET, socket.AF_NETLINK, 30, 40):  # 30: TIPC, 40: vsock
        try:
            socket.socketpair(family, socket.SOCK_SEQPACKET)
        except OSError as error:
            if error.errno == errno.EPERM:
                continue
        got.append(family)
    return f"let through: families {got}" if got else None


def datagram_pair() -> str | None:
    """One of a pair is made without a call for a socket. If it sends datagrams, it sends them to any name."""
    got = []
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):  # the kernel makes the first of the second
        try:
            ours, _theirs = socket.socketpair(socket.AF_UNIX, kind)
        except OSError:
            continue
        for name in ("\0" + target("ABSTRACT_DATAGRAMS"), target("DATAGRAMS_PATH")):
            try:
                ours.sendto(b"?", name)
            except OSError:
                continue
            got.append(name)
    return f"sent to {got}" if got else None


def metadata_service() -> str | None:
    """The cloud's credentials. A refusal or silence from out there means that a packet has left."""
    try:
        return connect(socket.AF_INET, socket.SOCK_STREAM, 0, ("169.254.169.254", 80))
    except (TimeoutError, ConnectionRefusedError) as error:
        return f"a packet left: {error}"


# ----------------------------------------------------------------------------------------------------------


def found(content: bytes) -> str | None:
    mark = target("MARK_REVERSED")[::-1].encode()  # reversed, or it would be found in our own environment
    return "read the secret" if mark in content else None


def run(attack: Callable[[], str | None]) -> str:
    try:
        got = attack()
    except (OSError, MemoryError, RuntimeError, ValueError) as error:
        return f"stopped: {type(error).__name__}: {error}"
    return "stopped: got nothing" if got is None else f"through: {got}"


if __name__ == "__main__":
    attack = globals()[sys.argv[1]]
    os.write(REPLY_FD, b"trying\n")
    verdict = run(attack)
    os.write(REPLY_FD, verdict.encode()[:500] + b"\n")
    os._exit(0)

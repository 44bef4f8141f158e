"""What the attacks go for: secrets, listeners and a neighbour, set up for the time of a probe and removed
after it.

Nothing here is a real secret. The daemon's own process is a target too, by its pid, memory and descriptors.
"""

import asyncio
import ctypes
import os
import secrets
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.launch import Child, Launcher, LaunchSpec, Limits
from runner.sandbox import cgroups, handover, installed, interpreter
from runner.sandbox.attacks import PROGRAMS

LIMITS: Final = Limits(
    memory_bytes=128 << 20,
    processes=32,
    open_files=64,
    file_bytes=4 << 20,
    scratch_bytes=16 << 20,
)
_ECHO: Final = ("/bin/sh", "-c", "exec cat <&3 >&4")
_PLANTED: Final = "FUNCTORY_PROBE_MARK"
_IPC_CREATE_OPEN_TO_ALL: Final = 0o1666
_IPC_REMOVE: Final = 0
_SHM_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Victims:
    """`targets` is the environment in which an attack finds them; `directory` is theirs and stays."""

    targets: dict[str, str]
    directory: Path
    weapons: Path
    """A folder that an attack brings along: a program that runs as whoever owns it."""
    neighbour: Child
    asking: asyncio.Lock
    """Held while the neighbour is asked: it answers one question after the other."""


@asynccontextmanager
async def victims(launcher: Launcher) -> AsyncIterator[Victims]:
    mark = secrets.token_hex(16)
    async with AsyncExitStack() as stack:
        directory = await asyncio.to_thread(_make_files, mark)
        stack.push_async_callback(asyncio.to_thread, shutil.rmtree, directory, ignore_errors=True)
        os.environ[_PLANTED] = mark
        stack.callback(os.environ.pop, _PLANTED, None)
        fd = os.open(directory / "secret", os.O_RDONLY)
        os.set_inheritable(fd, True)  # as a careless library would leave it
        stack.callback(os.close, fd)
        buffer = ctypes.create_string_buffer(mark.encode())
        key = _share(mark)
        stack.callback(_unshare, key)
        tcp, tcp6, abstract = _listeners(stack, mark)
        at_paths = _listeners_at_paths(stack, directory)
        weapons = directory / "bin"
        # With the same view of the file system, and so out of the same spawner, as an attack in python.
        readable = (PROGRAMS["python"], weapons)
        neighbour = await launcher.launch(LaunchSpec("neighbour", _ECHO, {}, LIMITS, readable=readable))
        stack.push_async_callback(_end, neighbour)
        targets = at_paths | {
            "MARK_REVERSED": mark[::-1],
            "SECRET_FILE": str(directory / "secret"),
            "OPEN_FILE": str(directory / "open"),
            "DIRECTORY": str(directory),
            "CGROUP_PROCS": ":".join(await asyncio.to_thread(_cgroup_procs)),
            "INSTALLED": ":".join(await asyncio.to_thread(lambda: installed.folders(interpreter.own()))),
            "DAEMON_PID": str(os.getpid()),
            "DAEMON_ADDRESS": str(ctypes.addressof(buffer)),
            "DAEMON_FD": str(fd),
            "NEIGHBOUR_PID": str(neighbour.pid),
            "SHM_KEY": str(key),
            "TCP_PORT": str(tcp),
            "TCP6_PORT": str(tcp6),
            "ABSTRACT": abstract,
            "MEMORY_BYTES": str(LIMITS.memory_bytes),
            "PROCESSES": str(LIMITS.processes),
            "OPEN_FILES": str(LIMITS.open_files),
            "FILE_BYTES": str(LIMITS.file_bytes),
            "SCRATCH_BYTES": str(LIMITS.scratch_bytes),
        }
        yield Victims(
            {f"TARGET_{name}": value for name, value in targets.items()},
            directory,
            weapons,
            neighbour,
            asyncio.Lock(),
        )


async def still_answers(victims: Victims) -> bool:
    """Whether the neighbour works as before: a line sent to it comes back."""
    neighbour = victims.neighbour
    line = secrets.token_hex(8).encode() + b"\n"
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    async with victims.asking:
        loop.add_reader(neighbour.reader, arrived.set)
        try:
            os.write(neighbour.writer, line)
            await asyncio.wait_for(arrived.wait(), 10)
            return os.read(neighbour.reader, 4096) == line
        except (BrokenPipeError, TimeoutError):
            return False
        finally:
            loop.remove_reader(neighbour.reader)


def _make_files(mark: str) -> Path:
    directory = handover.open_folder("victims")
    for name, mode in (("secret", 0o600), ("open", 0o644)):
        path = directory / name
        path.write_text(mark)
        path.chmod(mode)
    (directory / "bin").mkdir(mode=0o755)
    program = directory / "bin" / "id"
    shutil.copy("/usr/bin/id", program)
    try:
        program.chmod(0o4755)  # root's, if we are root
    except PermissionError:
        # Our supervisor forbids such files (systemd's RestrictSUIDSGID=): then there are no rights to gain by one.
        program.chmod(0o755)
    return directory


def _listeners(stack: AsyncExitStack, mark: str) -> tuple[int, int, str]:
    ports = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        try:
            listener.bind((address, 0))
            listener.listen(64)
            ports.append(listener.getsockname()[1])
        except OSError:  # a machine without IPv6
            ports.append(9)
    abstract = f"functory-{mark[:8]}"
    _listen(stack, "\0" + abstract)
    return ports[0], ports[1], abstract


def _listeners_at_paths(stack: AsyncExitStack, directory: Path) -> dict[str, str]:
    """And one with an abstract name that, as the system's log, is sent datagrams."""
    stream, datagrams, abstract = directory / "socket", directory / "datagrams", f"functory-{secrets.token_hex(4)}"
    _listen(stack, str(stream))
    for name in (str(datagrams), "\0" + abstract):
        stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).bind(name)
    for path in (stream, datagrams):
        path.chmod(0o777)
    return {"SOCKET_PATH": str(stream), "DATAGRAMS_PATH": str(datagrams), "ABSTRACT_DATAGRAMS": abstract}


def _listen(stack: AsyncExitStack, name: str) -> None:
    listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    listener.bind(name)
    listener.listen(64)


def _share(mark: str) -> int:
    """A System V memory segment with the mark, open to everybody; returns its key."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = 0x4600_0000 | secrets.randbelow(1 << 20)
    identifier = libc.shmget(key, _SHM_BYTES, _IPC_CREATE_OPEN_TO_ALL)
    address = libc.shmat(identifier, None, 0) if identifier >= 0 else None
    if address is not None and address != ctypes.c_void_p(-1).value:
        ctypes.memmove(address, mark.encode(), len(mark))
        libc.shmdt(ctypes.c_void_p(address))
    return key


def _unshare(key: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    identifier = libc.shmget(key, _SHM_BYTES, 0)
    if identifier >= 0:
        libc.shmctl(identifier, _IPC_REMOVE, None)


def _cgroup_procs() -> list[str]:
    try:
        return cgroups.own_procs()
    except OSError:
        return ["/sys/fs/cgroup/cgroup.procs"]


async def _end(child: Child) -> None:
    await child.kill()
    child.close()

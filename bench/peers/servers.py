"""Redis and beanstalkd for one peer: on a free loopback port, with data in a temporary folder, gone afterwards."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.peer import BEANSTALKD, REDIS

_START_TIMEOUT_S: Final = 10.0


class Server(NamedTuple):
    port: int
    pid: int


@contextmanager
def server(kind: str, folder: Path, *, synced_redis: bool) -> Iterator[str]:
    """Its URL."""
    with running_server(kind, folder, synced_redis=synced_redis) as running:
        yield f"{kind.partition(' ')[0]}://127.0.0.1:{running.port}"


@contextmanager
def running_server(kind: str, folder: Path, *, synced_redis: bool) -> Iterator[Server]:
    port = free_port()
    with subprocess.Popen(_command(kind, port, folder, synced_redis), stdout=subprocess.DEVNULL) as process:
        try:
            _until_it_listens(process, port)
            yield Server(port, process.pid)
        finally:
            process.terminate()


def _command(kind: str, port: int, folder: Path, synced_redis: bool) -> list[str]:
    if kind == REDIS:
        sync = ["--appendonly", "yes", "--appendfsync", "always"] if synced_redis else ["--appendonly", "no"]
        address = ["--bind", "127.0.0.1", "--port", str(port)]
        return [_program("redis-server"), *address, "--dir", str(folder), "--save", "", *sync]
    log = ["-b", str(folder), "-f0"] if kind != BEANSTALKD else []
    return [_program("beanstalkd"), "-l", "127.0.0.1", "-p", str(port), *log]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(name)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _until_it_listens(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"{process.args!r} does not listen")

"""A MongoDB server for the tests: started when first asked for, killed and restarted by crash tests.

In this order: the server of FUNCTORY_TEST_MONGODB_URL, `mongod` on the PATH, FerretDB on PostgreSQL as built
by `make mongo`. What we start listens on a free loopback port and keeps its data in a temporary folder. It
dies with this process, however that ends. Without any of the three the tests are skipped with the reason, or
fail when CI is set.
"""

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from urllib.parse import quote

from tests.support.needs import missing

ROOT = Path(__file__).parents[2]
FERRET = ROOT / ".cache" / "mongo"
ENGINE_SH = ROOT / "tests" / "servers" / "mongo" / "engine.sh"
START_TIMEOUT_S = 120.0

# "Die with the parent" means the thread that started the process, so one thread that lives as long as this
# process starts them all: a server restarted by a worker thread of a test would otherwise end with it.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mongo-server")


class MongoServer:
    """A server that someone else runs; it can be used and not killed."""

    can_be_killed = False

    def __init__(self, url: str) -> None:
        self.url = url

    def start(self) -> None:
        """Starts it, or starts it again after `kill`, with the same URL and the same data."""

    def kill(self) -> None:
        """SIGKILL to all of its processes; returns when the last one is gone."""
        raise NotImplementedError("this server is not ours to kill")

    def close(self) -> None:
        """Ends it and removes its data."""


class Mongod(MongoServer):
    """MongoDB's own server."""

    can_be_killed = True

    def __init__(self, program: str) -> None:
        self._program = program
        self._folder = _make_folder()
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        super().__init__(f"mongodb://127.0.0.1:{self._port}/")

    def start(self) -> None:
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        log = self._folder / "mongod.log"
        arguments = ["--bind_ip=127.0.0.1", f"--port={self._port}", f"--dbpath={data}", "--quiet"]
        self._process = process = _start([self._program, *arguments], log)
        _wait_until(lambda: _accepts(self._port), process, log)

    def kill(self) -> None:
        if self._process is not None:
            _kill(self._process)
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class FerretDB(MongoServer):
    """FerretDB's gateway in front of PostgreSQL with DocumentDB, out of what `make mongo` built."""

    can_be_killed = True

    def __init__(self, built: Path = FERRET, *, fsync: bool) -> None:
        """Without `fsync` what is committed survives a kill, not a power cut: that is what tests need."""
        self._built = built
        self._fsync = fsync
        self._folder = _make_folder()
        self._data = self._folder / "data"
        self._port = 0
        self._postgres: subprocess.Popen[bytes] | None = None
        self._gateway: subprocess.Popen[bytes] | None = None
        super().__init__("")

    def start(self) -> None:
        if not self._data.exists():
            subprocess.run(["cp", "-a", str(self._built / "template"), str(self._data)], check=True)
        log = self._folder / "postgres.log"
        fsync = "on" if self._fsync else "off"
        self._postgres = _start([*self._engine(), "postgres", "-D", "/data/pg", "-c", f"fsync={fsync}"], log)
        ready = [*self._engine(), "pg_isready", "--quiet", "--host=/data"]
        _wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, self._postgres, log)

        log = self._folder / "gateway.log"
        database = f"postgres://postgres@/postgres?host={quote(str(self._data), safe='')}"
        arguments = [f"-postgres={database}", f"-listen=127.0.0.1:{self._port}", f"-state={self._folder}"]
        self._gateway = _start([str(self._built / "gateway"), *arguments], log)
        assert self._gateway.stdout is not None
        self.url = self._gateway.stdout.readline().decode().strip()  # ends at once if the gateway does
        if not self.url:
            raise RuntimeError(f"the gateway ended: {log.read_text()}")
        self._port = int(self.url.rstrip("/").rpartition(":")[2])

    def ask_postgres(self, *statements: str) -> str:
        """What PostgreSQL itself answers, beside the gateway: the values alone, line by line."""
        commands = [f"--command={statement}" for statement in statements]
        psql = ["psql", "--host=/data", "--username=postgres", "--no-align", "--tuples-only", *commands, "postgres"]
        return subprocess.run([*self._engine(), *psql], check=True, capture_output=True, text=True).stdout

    def kill(self) -> None:
        for process in (self._gateway, self._postgres):
            if process is not None:
                _kill(process)
        self._gateway = self._postgres = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _engine(self) -> list[str]:
        return ["sh", str(ENGINE_SH), str(self._built), str(self._data)]


@cache
def shared_server() -> MongoServer:
    """One server for the whole test session, started by the first test that asks and closed at the end.

    Not to be killed: other tests are on it. Without a server the test is skipped, or fails in CI.
    """
    server = find_server()
    server.start()
    atexit.register(server.close)
    return server


def find_server() -> MongoServer:
    """A server of one's own, not started yet. Skips the test, or fails it in CI, if this machine has none."""
    server = server_here()
    if server is None:
        missing("a MongoDB server", "build one with `make mongo`, or set FUNCTORY_TEST_MONGODB_URL")
    return server


def server_here(*, fsync: bool = False) -> MongoServer | None:
    """As `find_server`, or None. With fsync its commits survive a power cut, which tests do not need."""
    if url := os.environ.get("FUNCTORY_TEST_MONGODB_URL"):
        return MongoServer(url)
    if mongod := shutil.which("mongod"):
        return Mongod(mongod)
    return FerretDB(fsync=fsync) if (FERRET / "stamp").exists() else None


def _make_folder() -> Path:
    """A temporary folder that carries our process number. Those of killed test runs are removed on the way."""
    prefix = "functory-mongo-"
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        number = old.name.removeprefix(prefix).partition("-")[0]
        if not Path("/proc", number).exists():
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as stderr:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    return _starter.submit(start).result()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    with process.stdout as inherited:
        inherited.read()  # children inherit the pipe: its end means that the last of them is gone


def _wait_until(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
        time.sleep(0.05)  # another process: there is no event to wait on


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port

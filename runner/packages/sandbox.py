"""One build at a time: starts `handlers/bootstraps/packages.py` in a context of its own, and reads what it sends.

Ensures: a build ends within its time, with everything that it started; it writes to nothing but its scratch space,
which goes with it; where contexts have a network of their own, it reaches the hosts of the index and nothing else. What
it says is wrong is raised as PackagesRefusedError, what no handler can help as PackagesMissingError.
"""

import asyncio
import json
import os
import re
import shutil
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from handlers.hosts import HostPattern, host_name
from handlers.languages import BOOTSTRAPS
from handlers.packages import LockedPackage, Requirements, read_locked
from runner.egress import LOWEST_LEVEL, PROXY_VARIABLES, Egress, Gate, NoEgress
from runner.errors import LaunchError, PackagesMissingError, PackagesRefusedError, ProtocolError
from runner.launch import Child, Launcher, LaunchSpec, Limits
from runner.packages.frames import END, FAILED, TEXT, FrameReader

T = TypeVar("T")

_PYTHON: Final = Path(sys.executable).resolve()
_PROGRAM: Final = BOOTSTRAPS / "packages.py"
_MB: Final = 1 << 20
_WORK_BYTES: Final = 256 * _MB
"""For uv and python themselves, beside the files, which are in memory too where the scratch space is."""
_PROCESSES: Final = 128
_DOWNLOADS: Final = 8
_MOST_REFUSALS: Final = 16
"""Of the proxy, that are kept to say why a build failed."""
LISTED_IN: Final = "the operator's `packages_hosts`"
"""Where a host has to be listed that builds may call."""
_PYPI: Final = (HostPattern("pypi.org", (443,)), HostPattern("files.pythonhosted.org", (443,)))
_OPEN_FILES: Final = 1024
_SAID_BYTES: Final = 64 * 1024
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_INHERITED: Final = (*_PROXIES, "NO_PROXY", "no_proxy")
_NOT_REACHED: Final = re.compile(
    r"Failed to fetch|error sending request|client error|dns error|tcp connect error|operation timed out", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What an operator may set. `index` is a URL, "" for uv's own default, or "none"."""

    index: str = ""
    wheels: Path | None = None  # a folder of wheels, beside the index or instead of it
    builds: bool = False  # whether packages may run their build steps
    timeout_s: float = 300.0
    tree_bytes: int = 256 * _MB
    hosts: tuple[HostPattern, ...] = ()  # beside those of the index: where it keeps its files

    @property
    def index_hosts(self) -> tuple[HostPattern, ...]:
        """What a build may call."""
        if not self.has_index:
            return ()
        if not self.index:
            return (*_PYPI, *self.hosts)
        url = urlsplit(self.index)
        port = url.port or (80 if url.scheme == "http" else 443)
        return (HostPattern(host_name(url.hostname or ""), (port,)), *self.hosts)

    @property
    def has_index(self) -> bool:
        return self.index != "none"

    @property
    def memory_bytes(self) -> int:
        return self.tree_bytes + _WORK_BYTES


class About(NamedTuple):
    """The python of contexts. Trees are made for one tag."""

    python: str
    tag: str


def find_uv() -> Path | None:
    """Beside the daemon's own python, or on the PATH. Reads directories: not for the event loop."""
    path = shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
    return Path(path).resolve() if path else None


class BuildSandbox:
    """`close` waits for the threads; builds are to be cancelled before."""

    def __init__(
        self, launcher: Launcher, settings: BuildSettings, uv: Path | None, *, threads: int, egress: Egress
    ) -> None:
        self._launcher = launcher
        self._settings = settings
        self._uv = uv
        self._egress = egress
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="packages")

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    async def about(self) -> About:
        said = json.loads(await self._run("-", {"do": "about"}, _read_text, _ignore))
        return About(said["python"], said["tag"])

    async def resolve(
        self, tenant: str, requirements: Requirements, tell: Callable[[str], None]
    ) -> tuple[LockedPackage, ...]:
        """Raises PackagesRefusedError, PackagesMissingError."""
        request = {"do": "resolve", "dependencies": list(requirements.dependencies)}
        text = await self._run(tenant, request, _read_text, tell)
        try:
            packages = read_locked(text)
        except ValueError as error:
            raise PackagesRefusedError(f"{error} cannot be locked: it has no version, or no hash") from None
        if not packages:
            raise PackagesRefusedError("none of the dependencies is for this Python and platform")
        return packages

    async def install(self, tenant: str, lock: str, take: Callable[[FrameReader], T], tell: Callable[[str], None]) -> T:
        """`take` gets the files, in a thread. Raises PackagesRefusedError, PackagesMissingError."""
        return await self._run(tenant, {"do": "install", "lock": lock}, take, tell)

    async def _run(
        self, tenant: str, request: dict[str, Any], take: Callable[[FrameReader], T], tell: Callable[[str], None]
    ) -> T:
        if self._uv is None and request["do"] != "about":
            raise PackagesMissingError("uv is not installed here, which gets packages: pip install uv")
        request |= {"index": self._settings.has_index, "builds": self._settings.builds}
        loop = asyncio.get_running_loop()
        try:
            child = await self._launcher.launch(self._spec(tenant))
        except LaunchError as error:
            raise PackagesMissingError(f"the build sandbox does not start: {error}") from error
        refused: deque[str] = deque(maxlen=_MOST_REFUSALS)
        gate = self._let_out(child, tenant, refused.append)
        os.set_blocking(child.reader, True)
        os.set_blocking(child.writer, True)
        loop.add_reader(child.log_fd, _listen, child, tell)
        talk = loop.run_in_executor(self._threads, _talk, child, request, take)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await asyncio.shield(talk)
        except TimeoutError:
            raise PackagesRefusedError(
                f"took longer than {self._settings.timeout_s:g} s, which is the limit for packages"
            ) from None
        except PackagesRefusedError as error:
            raise self._judged(str(error), refused) from None
        except (EOFError, BrokenPipeError, ProtocolError) as error:
            raise await self._ended(child, error) from error
        finally:
            loop.remove_reader(child.log_fd)
            await asyncio.shield(_end(child, talk))
            gate.close()

    @property
    def _is_proxied(self) -> bool:
        """Not where contexts share the machine's network, nor where the machine itself needs a proxy."""
        has_own_network = self._launcher.level >= LOWEST_LEVEL
        return self._settings.has_index and has_own_network and not any(map(os.environ.get, _PROXIES))

    def _let_out(self, child: Child, tenant: str, tell: Callable[[str], None]) -> Gate:
        listener = child.take_listener()
        if listener is None:
            return NoEgress()
        return self._egress.open(listener, tenant, self._settings.index_hosts, tell)

    def _spec(self, tenant: str) -> LaunchSpec:
        settings = self._settings
        is_proxied = self._is_proxied
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "UV_SYSTEM_CERTS": "1", "NO_COLOR": "1"}
        env["UV_HTTP_RETRIES"] = "1"  # somebody waits; and what fails is tried again later
        env["UV_CONCURRENT_DOWNLOADS"] = str(_DOWNLOADS)
        if is_proxied:
            env |= PROXY_VARIABLES
        elif settings.has_index:
            env |= {name: os.environ[name] for name in _INHERITED if name in os.environ}
        if settings.has_index and settings.index:
            env["UV_DEFAULT_INDEX"] = settings.index
        size_bytes = settings.tree_bytes + settings.tree_bytes // 2
        return LaunchSpec(
            tenant=tenant,
            argv=(_PYTHON, "-IS", _PROGRAM, self._uv or "", settings.wheels or ""),
            env=env,
            limits=Limits(
                memory_bytes=size_bytes + _WORK_BYTES,
                processes=_PROCESSES,
                open_files=_OPEN_FILES,
                file_bytes=settings.tree_bytes,
                scratch_bytes=size_bytes,
                cpu_s=round(settings.timeout_s) * (os.cpu_count() or 1),
            ),
            network=settings.has_index and not is_proxied,
            egress=is_proxied,
            template="python",
        )

    def _judged(self, text: str, refused: Iterable[str]) -> PackagesRefusedError | PackagesMissingError:
        """What uv said, without the index's password, by whose fault it is."""
        if away := next((each for each in refused if LISTED_IN in each), ""):
            return PackagesMissingError(f"files of the index are on a host that builds may not call: {away}")
        account = urlsplit(self._settings.index).netloc.rpartition("@")[0]
        told = text.replace(f"{account}@", "") if account else text
        if _NOT_REACHED.search(told):
            return PackagesMissingError(f"the index of packages does not answer: {told}")
        return PackagesRefusedError(told)

    async def _ended(self, child: Child, error: Exception) -> PackagesRefusedError | PackagesMissingError:
        if isinstance(error, ProtocolError):
            return PackagesRefusedError(f"the build {error}")
        await child.kill()
        if (await child.wait()).oom:
            return PackagesRefusedError(
                f"need more memory to install than the {self._settings.tree_bytes >> 20} MB limit"
            )
        return PackagesMissingError("the build ended before it was done")


def _talk(child: Child, request: dict[str, Any], take: Callable[[FrameReader], T]) -> T:
    """Send the request and read the answer; in a thread."""
    body = json.dumps(request).encode()
    view = memoryview(len(body).to_bytes(4, "little") + body)
    while view:
        view = view[os.write(child.writer, view) :]
    return take(FrameReader(child.reader))


def _read_text(reader: FrameReader) -> str:
    text = ""
    while (frame := reader.next()).kind != END:
        text = reader.text(frame)
        if frame.kind == FAILED:
            raise PackagesRefusedError(text)
        if frame.kind != TEXT:
            raise ProtocolError("sent what was not asked for")
    return text


def _listen(child: Child, tell: Callable[[str], None]) -> None:
    """Progress: the last line that was printed."""
    try:
        said = os.read(child.log_fd, _SAID_BYTES)
    except (BlockingIOError, OSError):
        said = b""
    if not said:
        asyncio.get_running_loop().remove_reader(child.log_fd)
        return
    lines = said.decode("utf-8", "replace").split("\n")
    if last := next((line.strip() for line in reversed(lines) if line.strip()), ""):
        tell("".join(char for char in last[:200] if char.isprintable()))


def _ignore(_: str) -> None:
    """Nobody wants to know."""


async def _end(child: Child, talk: "asyncio.Future[Any]") -> None:
    await child.kill()
    await asyncio.wait([talk])  # its pipes are closed only when it has done with them
    if not talk.cancelled():
        talk.exception()
    child.close()

"""What gets packages in the build sandbox: uv for python, npm for node. A tool says what to run and what to call, and
reads the lock that it made; running it is the sandbox's business.
"""

import base64
import re
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from handlers.hosts import HostPattern, host_name
from handlers.npm import NodeRequirements, read_npm_lock
from handlers.packages import Lock, Requirements, npm_lock, read_locked, why_too_big
from runner.errors import PackagesRefusedError
from vocabulary.sizes import MIB

_WORK_BYTES: Final = 256 * MIB
"""For the tools themselves, beside the files, which are in memory too where the scratch space is."""
_PYPI: Final = (HostPattern("pypi.org", (443,)), HostPattern("files.pythonhosted.org", (443,)))
_NPM_REGISTRY: Final = "https://registry.npmjs.org/"
_DOWNLOADS: Final = 8


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What an operator may set. `index` is a URL, "" for uv's own default, or "none"; so is `registry`, of npm."""

    index: str = ""
    wheels: Path | None = None  # a folder of wheels, beside the index or instead of it
    builds: bool = False  # whether packages may run their build steps
    timeout_s: float = 300.0
    tree_bytes: int = 256 * MIB
    hosts: tuple[HostPattern, ...] = ()  # beside those of the index and the registry: where these keep their files
    registry: str = ""
    tarballs: Path | None = None  # a folder of npm's tarballs, instead of a registry

    @property
    def work_bytes(self) -> int:
        """The scratch space of a build."""
        return self.tree_bytes + self.tree_bytes // 2

    @property
    def build_bytes(self) -> int:
        """The memory of a build, with its scratch space."""
        return self.work_bytes + _WORK_BYTES

    @property
    def memory_bytes(self) -> int:
        """What a build is counted with."""
        return self.tree_bytes + _WORK_BYTES


class About(NamedTuple):
    """The python or node of contexts. Trees are made for one tag."""

    version: str
    tag: str


class Tool(Protocol):
    lang: str
    folder: str
    """The name of the folder of packages in a tree, by which contexts know where they want it."""
    not_reached: re.Pattern[str]
    """In what it says: the index does not answer."""

    @property
    def missing(self) -> str:
        """Why it is not here, or ""."""

    @property
    def account(self) -> str:
        """Of the index, as it stands in its address: what nobody may read in what it says. "" if it has none."""

    @property
    def hosts(self) -> tuple[HostPattern, ...]:
        """What its builds may call; nothing if there is no index."""

    @property
    def needs_loopback(self) -> bool:
        """Whether the program below serves something to the tool."""

    @property
    def argv(self) -> tuple[str | Path, ...]:
        """The arguments of `handlers/bootstraps/packages.py`."""

    @property
    def env(self) -> Mapping[str, str]: ...

    def request(self) -> dict[str, Any]:
        """What every request to that program has."""

    def asking(self, requirements: Any) -> dict[str, Any]:
        """What a request to resolve has beside that."""

    def lock(self, requirements: Any, about: About, said: str) -> Lock:
        """What it has resolved. Raises PackagesRefusedError."""


class Uv:
    lang = "python"
    folder = "site"
    not_reached = re.compile(
        r"Failed to fetch|error sending request|client error|dns error|tcp connect error|operation timed out",
        re.IGNORECASE,
    )

    def __init__(self, settings: BuildSettings, path: Path | None) -> None:
        self._settings = settings
        self._path = path

    @property
    def missing(self) -> str:
        return "" if self._path else "uv is not installed on this machine, which gets packages: pip install uv"

    @property
    def account(self) -> str:
        return _account(self._settings.index)

    @property
    def hosts(self) -> tuple[HostPattern, ...]:
        settings = self._settings
        return _hosts(settings.index, _PYPI, settings.hosts)

    @property
    def needs_loopback(self) -> bool:
        return False

    @property
    def argv(self) -> tuple[str | Path, ...]:
        return ("uv", self._path or "", self._settings.wheels or "")

    @property
    def env(self) -> Mapping[str, str]:
        env = {"UV_SYSTEM_CERTS": "1", "UV_CONCURRENT_DOWNLOADS": str(_DOWNLOADS)}
        env["UV_HTTP_RETRIES"] = "1"  # somebody waits; and what fails is tried again later
        if self.hosts and self._settings.index:
            env["UV_DEFAULT_INDEX"] = self._settings.index
        return env

    def request(self) -> dict[str, Any]:
        return {"index": bool(self.hosts), "builds": self._settings.builds}

    def asking(self, requirements: Requirements) -> dict[str, Any]:
        return {"dependencies": list(requirements.dependencies)}

    def lock(self, requirements: Requirements, about: About, said: str) -> Lock:
        try:
            packages = read_locked(said)
        except ValueError as error:
            raise PackagesRefusedError(f"{error} cannot be locked: it has no version, or no hash") from None
        if not packages:
            raise PackagesRefusedError("none of the dependencies is for this Python and platform")
        lock = Lock(requirements.digest, ".".join(about.version.split(".")[:2]), packages)
        if reason := why_too_big(lock):
            raise PackagesRefusedError(reason)
        return lock


class Node(NamedTuple):
    """Where node and its npm are: the program, and the folder of npm, which may be missing."""

    program: Path
    npm: Path | None = None


class Npm:
    lang = "node"
    folder = "node_modules"
    not_reached = re.compile(
        r"\b(?:ECONN\w+|ENOTFOUND|EAI_AGAIN|E\w*TIMEDOUT|\w+_TIMEOUT|ENEEDAUTH|EPROTO)\b|^(?:401|5\d\d) |certificate",
        re.MULTILINE,
    )

    def __init__(self, settings: BuildSettings, node: Node | None) -> None:
        self._settings = settings
        self._node = node

    @property
    def missing(self) -> str:
        if self._settings.registry == "none" and self._settings.tarballs is None:
            return "the operator has set no registry of node packages (packages_registry=none)"
        if self._node is None or self._node.npm is None:
            return "npm is not installed on this machine, which gets packages for node: install npm"
        return ""

    @property
    def account(self) -> str:
        return _account(self._settings.registry)

    @property
    def hosts(self) -> tuple[HostPattern, ...]:
        settings = self._settings
        if settings.tarballs is not None:
            return ()
        return _hosts(settings.registry, _hosts(_NPM_REGISTRY, (), ()), settings.hosts)

    @property
    def needs_loopback(self) -> bool:
        return self._settings.tarballs is not None

    @property
    def argv(self) -> tuple[str | Path, ...]:
        tools = (self._node.program, self._node.npm or "") if self._node else ("", "")
        return ("npm", *tools, self._settings.tarballs or "")

    @property
    def env(self) -> Mapping[str, str]:
        return {"NO_UPDATE_NOTIFIER": "1"}

    def request(self) -> dict[str, Any]:
        return {"npmrc": "" if self.needs_loopback else _npmrc(self._settings.registry or _NPM_REGISTRY)}

    def asking(self, requirements: NodeRequirements) -> dict[str, Any]:
        return {"package": requirements.as_package(), "lock": requirements.lock}

    def lock(self, requirements: NodeRequirements, about: About, said: str) -> Lock:  # noqa: ARG002 (the protocol's)
        try:
            return npm_lock(requirements.digest, read_npm_lock(said, self._is_ours))
        except ValueError as error:
            raise PackagesRefusedError(str(error)) from None

    def _is_ours(self, address: str) -> bool:
        try:
            url = urlsplit(address)
            name, port = host_name(url.hostname or ""), url.port or (80 if url.scheme == "http" else 443)
        except ValueError:
            return False
        if self.needs_loopback:
            return (url.scheme, name) == ("http", "127.0.0.1")
        return any(host.matches(name, port) for host in self.hosts)


def find_uv() -> Path | None:
    """Beside the daemon's own python, or on the PATH. Reads directories: not for the event loop."""
    path = shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
    return Path(path).resolve() if path else None


def find_node() -> Node | None:
    """On the PATH, npm also beside node. Reads directories: not for the event loop."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None:
        return None
    node = Path(program).resolve()
    folders = [node.parents[1] / "lib" / "node_modules" / "npm"]
    if npm is not None:
        folders.insert(0, Path(npm).resolve().parents[1])
    return Node(node, next((folder for folder in folders if (folder / "bin" / "npm-cli.js").is_file()), None))


def _hosts(index: str, default: tuple[HostPattern, ...], others: tuple[HostPattern, ...]) -> tuple[HostPattern, ...]:
    if index == "none":
        return ()
    if not index:
        return (*default, *others)
    url = urlsplit(index)
    port = url.port or (80 if url.scheme == "http" else 443)
    return (HostPattern(host_name(url.hostname or ""), (port,)), *others)


def _account(index: str) -> str:
    return urlsplit(index).netloc.rpartition("@")[0]


def _npmrc(registry: str) -> str:
    """The settings of npm. An account goes into a field of its own: npm would print the address."""
    url = urlsplit(registry)
    account, _, place = url.netloc.rpartition("@")
    path = url.path.rstrip("/") + "/"
    lines = [f"registry={urlunsplit((url.scheme, place, path, '', ''))}"]
    name, _, password = account.partition(":")
    if name:
        pair = f"{unquote(name)}:{unquote(password)}"
        lines.append(f"//{place}{path}:_auth={base64.b64encode(pair.encode()).decode()}")
    elif password:
        lines.append(f"//{place}{path}:_authToken={unquote(password)}")
    return "\n".join(lines) + "\n"

"""One build at a time: starts `handlers/bootstraps/packages.py` in a context of its own, and reads what it sends.

Ensures: a build ends within its time, with everything that it started; it writes to nothing but its scratch space,
which goes with it; where contexts have a network of their own, it reaches the hosts of the index and nothing else. What
it says is wrong is raised as PackagesRefusedError, what no handler can help as PackagesMissingError. Nothing that it
says is passed on with the account of the index.
"""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from handlers.languages import BOOTSTRAPS, LANGUAGES
from handlers.packages import Lock, Wanted
from runner.egress import LOWEST_LEVEL, PROXY_VARIABLES, Egress, Gate, NoEgress
from runner.errors import LaunchError, PackagesMissingError, PackagesRefusedError, ProtocolError
from runner.launch import Child, Launcher, LaunchSpec, Limits
from runner.masking import Masker
from runner.packages.frames import END, FAILED, TEXT, FrameReader
from runner.packages.source import Tell, nobody
from runner.packages.tools import About, BuildSettings, Tool

T = TypeVar("T")

_PYTHON: Final = Path(sys.executable).resolve()
_PROGRAM: Final = BOOTSTRAPS / "packages.py"
_PROCESSES: Final = 128
_MOST_REFUSALS: Final = 16
"""Of the proxy, that are kept to say why a build failed."""
LISTED_IN: Final = "the operator's `packages_hosts`"
"""Where a host has to be listed that builds may call."""
_OPEN_FILES: Final = 1024
_OWN_PORT: Final = 4873
"""Of a build that serves something to its tool, where its network is its own; elsewhere any port that is free."""
_SAID_BYTES: Final = 64 * 1024
_LINE_BYTES: Final = 4096
_STEP_CHARS: Final = 200
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_INHERITED: Final = (*_PROXIES, "NO_PROXY", "no_proxy")


class BuildSandbox:
    """`close` waits for the threads; builds are to be cancelled before."""

    def __init__(
        self, launcher: Launcher, settings: BuildSettings, tools: Iterable[Tool], *, threads: int, egress: Egress
    ) -> None:
        self._launcher = launcher
        self._settings = settings
        self._tools = {tool.lang: tool for tool in tools}
        self._egress = egress
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="packages")

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    def folder_of(self, lang: str) -> str:
        """The name that the folder of packages has in a tree."""
        return self._tools[lang].folder

    async def about(self, lang: str) -> About:
        said = json.loads(await self._run("-", self._tools[lang], {"do": "about"}, _read_text, nobody))
        return About(said["version"], said["tag"])

    async def resolve(self, tenant: str, requirements: Wanted, about: About, tell: Tell) -> Lock:
        """Raises PackagesRefusedError, PackagesMissingError."""
        tool = self._tools[requirements.lang]
        text = await self._run(tenant, tool, {"do": "resolve", **tool.asking(requirements)}, _read_text, tell)
        return await asyncio.to_thread(tool.lock, requirements, about, text)

    async def install(self, tenant: str, lock: Lock, take: Callable[[FrameReader], T], tell: Tell) -> T:
        """`take` gets the files, in a thread. Raises PackagesRefusedError, PackagesMissingError."""
        return await self._run(tenant, self._tools[lock.lang], {"do": "install", "lock": lock.as_text()}, take, tell)

    async def _run(
        self,
        tenant: str,
        tool: Tool,
        request: dict[str, Any],
        take: Callable[[FrameReader], T],
        tell: Tell,
    ) -> T:
        if tool.missing and request["do"] != "about":
            raise PackagesMissingError(tool.missing)
        spec = self._spec(tenant, tool)
        request |= tool.request() | {"port": spec.serves}
        loop = asyncio.get_running_loop()
        try:
            child = await self._launcher.launch(spec)
        except LaunchError as error:
            raise PackagesMissingError(f"the build sandbox does not start: {error}") from error
        refused: deque[str] = deque(maxlen=_MOST_REFUSALS)
        gate = self._let_out(child, tenant, tool, refused.append)
        os.set_blocking(child.reader, True)
        os.set_blocking(child.writer, True)
        loop.add_reader(child.log_fd, _Listener(child.log_fd, Curtain(tool.account), tell).hear)
        talk = loop.run_in_executor(self._threads, _talk, child, request, take)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await asyncio.shield(talk)
        except TimeoutError:
            raise PackagesRefusedError(
                f"took longer than {self._settings.timeout_s:g} s, which is the limit for packages", is_final=False
            ) from None
        except PackagesRefusedError as error:
            raise _judged(tool, error, refused) from None
        except (EOFError, BrokenPipeError, ProtocolError) as error:
            raise await self._ended(child, error) from error
        except OSError as error:  # of what `take` does
            reason = os.strerror(error.errno) if error.errno else "its disk does not work"
            raise PackagesMissingError(f"the packages cannot be stored on this machine: {reason}") from error
        finally:
            loop.remove_reader(child.log_fd)
            await asyncio.shield(_end(child, talk))
            gate.close()

    @property
    def _has_own_network(self) -> bool:
        """Below that level contexts share the machine's."""
        return self._launcher.level >= LOWEST_LEVEL

    def _is_proxied(self, tool: Tool) -> bool:
        """Not where contexts share the machine's network, nor where the machine itself needs a proxy."""
        return bool(tool.hosts) and self._has_own_network and not any(map(os.environ.get, _PROXIES))

    def _let_out(self, child: Child, tenant: str, tool: Tool, tell: Tell) -> Gate:
        listener = child.take_listener()
        if listener is None:
            return NoEgress()
        way_out = self._egress if tool.hosts else NoEgress()
        return way_out.open(listener, tenant, tool.hosts, tell)

    def _spec(self, tenant: str, tool: Tool) -> LaunchSpec:
        settings = self._settings
        is_proxied = self._is_proxied(tool)
        has_loopback = tool.needs_loopback and self._has_own_network
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "NO_COLOR": "1", **tool.env}
        if is_proxied:
            env |= PROXY_VARIABLES
        elif tool.hosts:
            env |= {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return LaunchSpec(
            tenant=tenant,
            argv=(_PYTHON, "-IS", _PROGRAM, *tool.argv),
            env=env,
            limits=Limits(
                memory_bytes=settings.build_bytes,
                processes=_PROCESSES,
                open_files=_OPEN_FILES,
                file_bytes=settings.tree_bytes,
                scratch_bytes=settings.work_bytes,
                cpu_s=round(settings.timeout_s) * (os.cpu_count() or 1),
                reserved_bytes=LANGUAGES[tool.lang].reserved_mb << 20,
            ),
            network=not is_proxied and not has_loopback and (bool(tool.hosts) or tool.needs_loopback),
            egress=is_proxied or has_loopback,
            serves=_OWN_PORT if has_loopback else 0,
            template="python",
        )

    async def _ended(self, child: Child, error: Exception) -> PackagesRefusedError | PackagesMissingError:
        if isinstance(error, ProtocolError):
            return PackagesRefusedError(f"the build {error}")
        await child.kill()
        if (await child.wait()).oom:
            return PackagesRefusedError(
                f"need more memory to install than the {self._settings.tree_bytes >> 20} MB limit", is_final=False
            )
        return PackagesMissingError("the build ended before it was done")


def _judged(
    tool: Tool, error: PackagesRefusedError, refused: Iterable[str]
) -> PackagesRefusedError | PackagesMissingError:
    """What the tool said, without the index's password, by whose fault it is."""
    if away := next((each for each in refused if LISTED_IN in each), ""):
        return PackagesMissingError(f"files of the index are on a host that builds may not call: {away}")
    told = Curtain(tool.account).before(str(error))
    if tool.not_reached.search(told):
        return PackagesMissingError(f"the index of packages does not answer: {told}")
    return PackagesRefusedError(told, is_final=error.is_final)


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


class Curtain:
    """Before what a tool says: the account of an index, as it stands in its address, is not seen through it."""

    def __init__(self, account: str) -> None:
        self._account = account
        name, _, password = account.partition(":")
        self._masker = Masker(
            {account, unquote(account), password or name, unquote(password or name)} if account else ()
        )

    def before(self, text: str) -> str:
        if not self._account:
            return text
        told = text.replace(f"{self._account}@", "")
        return self._masker.hide_cut(told.encode("utf-8", "replace")).decode("utf-8", "replace")


class _Listener:
    """Progress: of each read the last whole line that was printed. A line that is cut could show half an account."""

    def __init__(self, fd: int, curtain: Curtain, tell: Tell) -> None:
        self._fd = fd
        self._curtain = curtain
        self._tell = tell
        self._rest = b""

    def hear(self) -> None:
        try:
            said = os.read(self._fd, _SAID_BYTES)
        except OSError:
            said = b""
        if not said:
            asyncio.get_running_loop().remove_reader(self._fd)
            return
        *lines, rest = (self._rest + said).split(b"\n")
        self._rest = rest[:_LINE_BYTES]
        if last := next((line.strip() for line in reversed(lines) if line.strip()), b""):
            text = self._curtain.before(last[:_LINE_BYTES].decode("utf-8", "replace"))
            self._tell("".join(char for char in text if char.isprintable())[:_STEP_CHARS])


async def _end(child: Child, talk: "asyncio.Future[Any]") -> None:
    await child.kill()
    await asyncio.wait([talk])  # its pipes are closed only when it has done with them
    if not talk.cancelled():
        talk.exception()
    child.close()

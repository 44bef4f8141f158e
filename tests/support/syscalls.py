"""What a program really asked of the kernel, and what of it would survive a power cut at any moment.

`trace` runs a program under strace. `Disk` replays the calls over a model of the files: bytes are safe once a sync that
began after them has ended, and a new name is safe once its directory was synced. A removed name may come back: nothing
of ours depends on a removal. A program says where it stands with `mark`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.needs import missing, need_command

_CALLS: Final = (
    "write,pwrite64,writev,pwritev,pwritev2,ftruncate,fallocate,sendfile,copy_file_range,fsync,fdatasync,open,openat,"
    "creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,sendto,sendmsg"
)
_LINE: Final = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>(.*)|(\w+)\((.*))")
_RESULT: Final = re.compile(r"(.*)\) += (-?\d+|\?)(?:<(.*?)>)?(?: .*)?", re.DOTALL)
_FD: Final = re.compile(r"(-?\d+|AT_FDCWD)(?:<(.*?)(?:\(deleted\))?>)?")
_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PART: Final = re.compile(r'(?:[^,"<\[{(]|"(?:[^"\\]|\\.)*"(?:\.\.\.)?|<[^>]*>|\[[^\]]*\]|\{[^}]*\}|\([^)]*\))+')
_WRITES: Final = frozenset({"write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "fallocate"})
_SYNCS: Final = frozenset({"fsync", "fdatasync"})
_ON_DESCRIPTOR: Final = _WRITES | _SYNCS | {"sendto", "sendmsg"}
_MARK: Final = "@@ "


def mark(word: str) -> None:
    """For the traced program: "I now tell somebody that this is done"."""
    os.write(1, f"{_MARK}{word}\n".encode())


class Call(NamedTuple):
    """The beginning or the end of a call."""

    name: str
    path: str
    """Of the file, directory or socket that it is about; the old name of a rename."""
    new: str
    """The new name of a rename or link; what was marked."""
    data: str
    """The beginning of what was written, as strace shows it."""
    flags: str
    has_ended: bool
    is_good: bool
    thread: str = ""


def trace_command(log: Path) -> list[str]:
    """To stand before a command; the tracer is a child of the program, which keeps its process id."""
    strace = need_command("strace", "strace")
    return [strace, "-D", "-f", "-qq", "-y", "-s", "400", "--seccomp-bpf", "-e", f"trace={_CALLS}", "-e", "signal=none",
            "-o", str(log), "--"]  # fmt: skip


def trace(module: str, *arguments: object, log: Path) -> list[Call]:
    """Run `python -m module arguments` to its end."""
    command = [*trace_command(log), sys.executable, "-m", module, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "ptrace" in ended.stderr and not log.read_text():
        missing("ptrace", "allow this container to trace its own processes")
    assert ended.returncode == 0, ended.stderr
    return read_trace(log)


def read_trace(log: Path) -> list[Call]:
    lines = _Lines()
    return [call for line in log.read_text(errors="replace").splitlines() for call in lines.feed(line)]


class _Lines:
    """Calls of several threads are cut in two where they overlap; this puts the halves together."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], str] = {}

    def feed(self, line: str) -> Iterator[Call]:
        match = _LINE.fullmatch(line)
        if match is None:
            return
        pid, resumed, rest, name, text = match.groups()
        if resumed:
            begun = self._begun.pop((pid, resumed), None)
            if begun is not None:
                yield _call(resumed, begun + rest, has_ended=True)._replace(thread=pid)
        elif text.endswith(" <unfinished ...>"):
            begun = text.removesuffix(" <unfinished ...>")
            self._begun[(pid, name)] = begun
            yield _call(name, begun, has_ended=False)._replace(thread=pid)
        else:
            yield _call(name, text, has_ended=False)._replace(thread=pid)
            yield _call(name, text, has_ended=True)._replace(thread=pid)


def _call(name: str, text: str, *, has_ended: bool) -> Call:
    result = _RESULT.fullmatch(text)
    arguments = [part.strip() for part in _PART.findall(result[1] if result else text)]
    is_good = not has_ended or (result is not None and result[2].isdigit())
    paths = _paths(arguments[:1] if name in _ON_DESCRIPTOR else arguments)
    path, new, data = paths[0] if paths else "", "", ""
    if name in {"rename", "renameat", "renameat2", "link", "linkat"}:
        new = paths[1] if len(paths) > 1 else ""
    elif name in {"sendfile", "copy_file_range"}:
        path = paths[0] if name == "sendfile" else paths[-1]
    elif name in _ON_DESCRIPTOR and len(arguments) > 1:
        data = arguments[1]
        if data.startswith(f'"{_MARK}'):
            return Call("mark", "", data.strip('"')[len(_MARK) :].removesuffix("\\n"), "", "", has_ended, is_good)
    return Call(name, path, new, data, " ".join(arguments), has_ended, is_good)


def _paths(arguments: Sequence[str]) -> list[str]:
    """Whatever names a file: a descriptor with its path, a text, or a text under a descriptor of a directory."""
    found: list[str] = []
    under = ""
    for argument in arguments:
        if (fd := _FD.fullmatch(argument)) and fd[2]:
            if under:
                found.append(under)
            under = fd[2].strip()
        elif text := _TEXT.fullmatch(argument):
            found.append(str(Path(under) / text[1]))
            under = ""
    return [*found, under] if under else found


class _File:
    def __init__(self) -> None:
        self.written = self.synced = 0
        self.starting: dict[str, int] = {}
        """What was written when a sync began, by its thread."""

    @property
    def is_dirty(self) -> bool:
        return self.written > self.synced


class Disk:
    """The files below a folder, as the calls leave them. Names that were there before the trace are safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._files: dict[str, _File] = {}
        self._folders: dict[str, _File] = {}
        """Changes of the names in a directory."""
        self._known: set[str] = {str(path) for path in [folder, *folder.rglob("*")]}

    def replay(self, calls: Sequence[Call], before: Callable[[Call], None]) -> None:
        """`before` sees every call as it begins, when the model shows what came before it."""
        for call in calls:
            if not call.has_ended:
                before(call)
            if call.name == "mark" or self._is_here(call):
                self._apply(call)

    def unsafe(self, under: str | Path = "", *, ignore: str = r"(?!)") -> list[str]:
        """What a power cut now would take: files with bytes that are not synced, folders with names that are not."""
        root = str(under) or self._folder
        dirty = [path for path, file in self._files.items() if file.is_dirty]
        dirty += [f"{path}/" for path, names in self._folders.items() if names.is_dirty]
        inside = sorted(path for path in dirty if path.rstrip("/") == root or path.startswith(f"{root}/"))
        return [path for path in inside if not re.search(ignore, path)]

    def _is_here(self, call: Call) -> bool:
        return any(path == self._folder or path.startswith(f"{self._folder}/") for path in (call.path, call.new))

    def _apply(self, call: Call) -> None:
        if call.name in _WRITES or call.name in {"sendfile", "copy_file_range"}:
            # At both ends: a sync that begins while the write is under way does not vouch for it.
            self._file(call.path).written += 1
        elif call.name in _SYNCS:
            self._sync(call)
        elif call.has_ended and call.is_good:
            self._change_names(call)

    def _sync(self, call: Call) -> None:
        file = self._folders[call.path] if call.path in self._folders else self._file(call.path)
        if not call.has_ended:
            file.starting[call.thread] = file.written
        else:
            began = file.starting.pop(call.thread)
            if call.is_good:
                file.synced = max(file.synced, began)

    def _change_names(self, call: Call) -> None:
        if call.name in {"open", "openat", "creat"}:
            if ("O_CREAT" in call.flags or call.name == "creat") and call.path not in self._known:
                self._named(call.path)
        elif call.name in {"mkdir", "mkdirat"}:
            self._named(call.path)
            self._folders[call.path] = _File()
        elif call.name in {"rename", "renameat", "renameat2"}:
            self._move(call.path, call.new)
        elif call.name in {"link", "linkat"}:
            self._named(call.new)
            self._files[call.new] = self._file(call.path)
        elif call.name in {"unlink", "unlinkat", "rmdir"}:
            self._forget(call.path)

    def _named(self, path: str) -> None:
        self._known.add(path)
        self._folder_of(path).written += 1

    def _forget(self, path: str) -> None:
        self._known.discard(path)
        self._files.pop(path, None)
        self._folders.pop(path, None)

    def _move(self, old: str, new: str) -> None:
        for held in (self._files, self._folders):
            for path in [path for path in held if path == old or path.startswith(f"{old}/")]:
                held[new + path[len(old) :]] = held.pop(path)
        moved = {path for path in self._known if path == old or path.startswith(f"{old}/")}
        self._known = (self._known - moved) | {new + path[len(old) :] for path in moved}
        self._folder_of(old).written += 1
        self._folder_of(new).written += 1

    def _file(self, path: str) -> _File:
        return self._files.setdefault(path, _File())

    def _folder_of(self, path: str) -> _File:
        return self._folders.setdefault(str(Path(path).parent), _File())

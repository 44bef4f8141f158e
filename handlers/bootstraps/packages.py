"""Runs in the build sandbox: has uv resolve or install, and sends the result over the reply pipe.

Nothing of a package is run: wheels are unpacked, and their modules compiled. (If the operator allows builds, uv runs
the build steps of packages, in here.) It has a scratch space and sees no tree: the daemon writes the files that it
sends. A link, or anything else that is not a plain file, is an error with its name.

Arguments: uv, and a folder of wheels or "". One request arrives on the request pipe: four bytes of length, JSON. The
reply is a sequence of frames (`runner.packages.frames` reads them). Only the standard library: this file runs in
contexts.
"""

import compileall
import importlib.util
import json
import os
import py_compile
import re
import stat
import struct
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from typing import Any

REQUEST_FD = 3
REPLY_FD = 4
FRAME = struct.Struct("<cHQ")  # kind, bytes of the name, bytes of the content
FILE, TEXT, END, FAILED = b"F", b"T", b"E", b"X"
CHUNK = 1 << 16
ERROR_BYTES = 4000
INSIDE = "/functory/packages"  # where contexts find the tree: what their tracebacks show
ALL = ":all:"
COLOUR = re.compile("\x1b\\[[0-9;]*m")


class Failure(Exception):
    """What the tenant reads."""


def main() -> None:
    head = read(4)
    request = json.loads(read(int.from_bytes(head, "little")))
    uv, wheels = sys.argv[1:3]
    try:
        reply = {"about": about, "resolve": resolve, "install": install}[request["do"]]
        reply(uv, wheels, request)
    except Failure as failure:
        send(FAILED, "", str(failure).encode("utf-8", "replace")[:ERROR_BYTES])
    except OSError as error:
        text = "the packages are bigger than the limit" if error.errno == 28 else f"{error}"
        send(FAILED, "", text.encode("utf-8", "replace")[:ERROR_BYTES])
    else:
        send(END, "", b"")


def about(uv: str, _wheels: str, _request: dict[str, Any]) -> None:
    """Which python contexts have: trees are made for one kind of it."""
    tag = f"{sysconfig.get_config_var('SOABI')}-{importlib.util.MAGIC_NUMBER.hex()}"
    if uv:
        run([uv, "--version"])
    send(TEXT, "about", json.dumps({"python": sys.version.split()[0], "tag": tag}).encode())


def resolve(uv: str, wheels: str, request: dict[str, Any]) -> None:
    os.mkdir("project")
    project = {"name": "handler", "version": "0", "dependencies": request["dependencies"]}
    with open("project/pyproject.toml", "w", encoding="utf-8") as file:
        file.write("[project]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in project.items()))
    command = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links", *common(wheels, request), "project/pyproject.toml"]
    tell("resolving")
    send(TEXT, "lock", run(command).encode())


def install(uv: str, wheels: str, request: dict[str, Any]) -> None:
    with open("lock.txt", "w", encoding="utf-8") as file:
        file.write(request["lock"])
    command = [uv, "pip", "install", "--target", "tree", "--require-hashes", "--link-mode", "hardlink"]
    tell("installing")
    run([*command, *common(wheels, request), "-r", "lock.txt"])
    for path, info in files("tree"):
        if not stat.S_ISREG(info.st_mode):
            raise Failure(f"{path.removeprefix('tree/')} in a package is a link or a special file: it is not installed")
    tell("compiling")
    compileall.compile_dir(
        "tree",
        quiet=2,
        stripdir="tree",
        prependdir=INSIDE,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,  # a tree never changes
    )
    for path, info in sorted(files("tree")):
        send_file(path, path.removeprefix("tree/"), info.st_size)


def common(wheels: str, request: dict[str, Any]) -> list[str]:
    words = ["--python", sys.executable, "--no-config", "--no-python-downloads", "--cache-dir", "cache"]
    if not request["builds"]:
        words += ["--only-binary", ALL]
    if wheels:
        words += ["--find-links", wheels]
    return words if request["index"] else [*words, "--no-index", "--offline"]


def run(command: list[str]) -> str:
    """Its output. Raises Failure with what it says is wrong. What it tells of its progress goes on to the daemon."""
    process = subprocess.Popen(  # noqa: S603  # uv, with words of ours
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    said: list[str] = []
    with process:
        output = collect(process, said)
    if process.returncode:
        text = COLOUR.sub("", "".join(said[-60:])).strip().removeprefix("error: ")
        raise Failure(text or f"uv ended with {process.returncode}")
    return output


def collect(process: subprocess.Popen[str], said: list[str]) -> str:
    assert process.stderr is not None
    assert process.stdout is not None
    stderr = process.stderr

    def listen() -> None:
        for line in stderr:
            said.append(line[:1000])
            tell(line.rstrip()[:200])

    listener = threading.Thread(target=listen)
    listener.start()
    output = process.stdout.read()
    listener.join()
    return output


def files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from files(entry.path)
        elif entry.name != ".lock":
            yield entry.path, entry.stat(follow_symlinks=False)


def send_file(path: str, name: str, size: int) -> None:
    raw = name.encode("utf-8", "surrogateescape")
    write(FRAME.pack(FILE, len(raw), size) + raw)
    with open(path, "rb") as file:
        while size and (part := file.read(min(CHUNK, size))):
            write(part)
            size -= len(part)


def tell(text: str) -> None:
    """Progress, for whoever waits."""
    os.write(1, text.encode("utf-8", "replace") + b"\n")


def send(kind: bytes, name: str, content: bytes) -> None:
    write(FRAME.pack(kind, len(name), len(content)) + name.encode() + content)


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(REPLY_FD, view) :]


def read(count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = os.read(REQUEST_FD, count - len(parts))
        if not part:
            raise SystemExit(1)
        parts += part
    return parts


if __name__ == "__main__":
    main()

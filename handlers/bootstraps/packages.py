"""Runs in the build sandbox: has uv or npm resolve or install, and sends the result over the reply pipe.

Nothing of a package is run: wheels and tarballs are unpacked, and python modules compiled; npm is told to run no
scripts. (If the operator allows builds, uv runs the build steps of packages, in here.) It has a scratch space and sees
no tree: the daemon writes the files that it sends. A link, or anything else that is not a plain file, is an error with
its name.

Arguments: "uv", its program, and a folder of wheels or ""; or "npm", the program of node, the folder of npm, and a
folder of tarballs or "". From tarballs npm installs by way of a registry that this program serves to it on the loopback
interface, so that a lock is the same as from any other registry.

One request arrives on the request pipe: four bytes of length, JSON. The reply is a sequence of frames
(`runner.packages.frames` reads them). Only the standard library: this file runs in contexts.
"""

import base64
import compileall
import functools
import hashlib
import http.server
import importlib.util
import json
import os
import py_compile
import re
import signal
import stat
import struct
import subprocess
import sys
import sysconfig
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote

REQUEST_FD = 3
REPLY_FD = 4
FRAME = struct.Struct("<cHQ")  # kind, bytes of the name, bytes of the content
FILE, TEXT, END, FAILED = b"F", b"T", b"E", b"X"
CHUNK = 1 << 16
TOO_BIG = "the packages are bigger than the limit"
ERROR_BYTES = 4000
INSIDE = "/functory/packages"  # where contexts find the tree: what their tracebacks show
ALL = ":all:"
COLOUR = re.compile("\x1b\\[[0-9;]*m")
NPM_SAYS = re.compile(r"npm (?:error|ERR!)(?: |$)")
NPM_NOISE = re.compile(
    r"Log files were not written|A complete log of this run|^code E|^errno |^syscall |^$|^404$|^404 Note |^404 tarball"
)
NO_ROOM = re.compile(r"\b(EFBIG|ENOSPC|SIGXFSZ)\b")
STEPS = (  # what uv and npm print that is worth telling, and how it is told
    (re.compile(r"npm http fetch GET 200 \S*/([^/ ]+) "), "fetched {}"),
    (re.compile(r" *Downloading (\S+) \((\S+)\)"), "fetching {}, {}"),
    (re.compile(r" *Downloaded (\S+)"), "fetched {}"),
    (re.compile(r" *Building (\S+)"), "building {}"),
    (re.compile(r" *\+ (\S+)==(\S+)"), "installed {} {}"),
)
ABOUT_NODE = """
const { versions, platform, arch, report } = process;
const libc = report.getReport().header.glibcVersionRuntime ? 'glibc' : 'other';
JSON.stringify({ version: versions.node, tag: [versions.modules, platform, arch, libc].join('-') })
"""
INSTALL_SCRIPTS = ("preinstall", "install", "postinstall")
VERSION = re.compile(r"(\d{1,15})\.(\d{1,15})\.(\d{1,15})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
MAX_MANIFEST_BYTES = 1 << 20
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


class Failure(Exception):
    """What the tenant reads."""


def main() -> None:
    head = read(4)
    request = json.loads(read(int.from_bytes(head, "little")))
    tool, program, folder, *_ = sys.argv[1:]
    try:
        reply = REPLIES[tool, request["do"]]
        reply(program, folder, request)
    except Failure as failure:
        send(FAILED, "", str(failure).encode("utf-8", "replace")[:ERROR_BYTES])
    except OSError as error:
        text = TOO_BIG if error.errno == 28 else f"{error}"
        send(FAILED, "", text.encode("utf-8", "replace")[:ERROR_BYTES])
    else:
        send(END, "", b"")


def about(uv: str, _wheels: str, _request: dict[str, Any]) -> None:
    """Which python contexts have: trees are made for one kind of it."""
    tag = f"{sysconfig.get_config_var('SOABI')}-{importlib.util.MAGIC_NUMBER.hex()}"
    if uv:
        run([uv, "--version"])
    send(TEXT, "about", json.dumps({"version": sys.version.split()[0], "tag": tag}).encode())


def resolve(uv: str, wheels: str, request: dict[str, Any]) -> None:
    os.mkdir("project")
    name = f"handler-{os.urandom(16).hex()}"  # one of its own name would be left out of what it asks for
    project = {"name": name, "version": "0", "dependencies": request["dependencies"]}
    with open("project/pyproject.toml", "w", encoding="utf-8") as file:
        file.write("[project]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in project.items()))
    command = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links", *common(wheels, request), "project/pyproject.toml"]
    tell("resolving")
    try:
        send(TEXT, "lock", run(command).encode())
    except Failure as failure:
        raise Failure(str(failure).replace(name, "handler")) from None


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


def uv_trouble(lines: list[str]) -> str:
    return "".join(lines[-60:]).strip().removeprefix("error: ")


def run(command: list[str], trouble: Callable[[list[str]], str] = uv_trouble) -> str:
    """Its output. Raises Failure with what it says is wrong. What it tells of its progress goes on to the daemon."""
    process = subprocess.Popen(  # noqa: S603  # uv or npm, with words of ours
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    said: list[str] = []
    with process:
        output = collect(process, said)
    if process.returncode == -signal.SIGXFSZ:  # it may have had no time to say so
        raise Failure(TOO_BIG)
    if process.returncode:
        text = trouble([COLOUR.sub("", line) for line in said])
        raise Failure(text or f"the installer ended with {process.returncode}")
    return output


def collect(process: subprocess.Popen[str], said: list[str]) -> str:
    assert process.stderr is not None
    assert process.stdout is not None
    stderr = process.stderr

    def listen() -> None:
        for line in stderr:
            said.append(line[:1000])
            if step := step_in(line[:1000]):
                tell(step)

    listener = threading.Thread(target=listen)
    listener.start()
    output = process.stdout.read()
    listener.join()
    return output


def step_in(line: str) -> str:
    """What a line tells of the progress; "" for any other, which may name places of this machine."""
    for pattern, step in STEPS:
        if found := pattern.match(COLOUR.sub("", line)):
            return step.format(*map(unquote, found.groups()))
    return ""


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


def about_node(node: str, _npm: str, _request: dict[str, Any]) -> None:
    """Which node contexts have. Packages may have been made for one ABI, platform and C library."""
    if not node:
        raise Failure("node is not installed on this machine")
    said = run([node, "-p", ABOUT_NODE])
    send(TEXT, "about", said.strip().encode())


def resolve_node(node: str, npm: str, request: dict[str, Any]) -> None:
    prepare_node(request, request["package"], request["lock"])
    tell("resolving")
    run_npm(node, npm, "install", "--package-lock-only")
    with open("project/package-lock.json", "rb") as file:
        send(TEXT, "lock", file.read())


def install_node(node: str, npm: str, request: dict[str, Any]) -> None:
    locked = json.loads(request["lock"])["packages"]
    prepare_node(request, locked[""], request["lock"])
    tell("installing")
    try:
        run_npm(node, npm, "ci")
    except Failure as failure:
        raise Failure("\n".join([*others_than(locked, str(failure)), str(failure)])) from None
    tree = "project/node_modules"
    require_locked(tree, locked)
    found = sorted(files(tree)) if os.path.isdir(tree) else []
    for path, info in found:
        if not stat.S_ISREG(info.st_mode):
            name = path.removeprefix(f"{tree}/")
            raise Failure(f"{name} in a package is a link or a special file: it is not installed")
    for path, info in found:
        send_file(path, path.removeprefix(f"{tree}/"), info.st_size)


def others_than(locked: dict[str, Any], trouble: str) -> Iterator[str]:
    """npm names the hash that a file does not have, and not the package."""
    for place, entry in locked.items():
        if any(each in trouble for each in entry.get("integrity", "").split()):
            yield f"{place.rpartition('node_modules/')[2]} {entry['version']} is not the package that was locked:"


def require_locked(tree: str, locked: dict[str, Any]) -> None:
    """npm lists what it has installed. Nothing else than what is in the lock may be there."""
    listed = f"{tree}/.package-lock.json"
    if not os.path.exists(listed):
        return
    with open(listed, encoding="utf-8") as file:
        installed = json.load(file)["packages"]
    os.remove(listed)
    for place, entry in installed.items():
        wanted = locked.get(place, {})
        if [entry.get(name) for name in ("version", "inBundle")] != [
            wanted.get(name) for name in ("version", "inBundle")
        ]:
            raise Failure(f"{place.removeprefix('node_modules/')} {entry.get('version')} is not what was locked")


def prepare_node(request: dict[str, Any], package: dict[str, Any], lock: str) -> None:
    os.mkdir("project")
    tarballs = sys.argv[4]
    for name, text in {
        "npmrc": f"registry={Tarballs(tarballs).serve(request['port'])}\n" if tarballs else request["npmrc"],
        "globalrc": "",
        "project/package.json": json.dumps(package),
        "project/package-lock.json": lock,
    }.items():
        if text or name.endswith("rc"):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)


def run_npm(node: str, npm: str, *words: str) -> None:
    here = os.getcwd()
    command = [node, f"{npm}/bin/npm-cli.js", *words, "--prefix", f"{here}/project"]
    command += ["--userconfig", f"{here}/npmrc", "--globalconfig", f"{here}/globalrc", "--cache", f"{here}/cache"]
    command += ["--ignore-scripts", "--omit=dev", "--no-bin-links", "--no-audit", "--no-fund", "--no-update-notifier"]
    command += [
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
        "--logs-max=0",
        "--loglevel=http",
        "--no-color",
        "--no-progress",
        "--maxsockets=8",
    ]
    # "remote" is how npm gets the file of a package that brings others along, and npm 12 refuses it by default. Which
    # hosts may be called is decided elsewhere. Older ones know none of these.
    command += [f"--allow-{kind}=none" for kind in ("git", "file", "directory")]
    command += ["--allow-remote=all"]
    command += ["--git=/nonexistent"]
    command += [f"--cafile={path}" for path in CERTIFICATES if os.path.exists(path)][:1]
    os.environ["HOME"] = here
    run(command, npm_trouble)


def npm_trouble(lines: list[str]) -> str:
    said = [NPM_SAYS.sub("", line).strip() for line in lines if NPM_SAYS.match(line)]
    if any(NO_ROOM.search(line) for line in said):
        return TOO_BIG
    return "\n".join(line for line in said if not NPM_NOISE.search(line))


class Tarballs:
    """A folder of tarballs as a registry. A package is in those whose names begin with its own, as `npm pack` and
    registries name them; what is in them decides."""

    def __init__(self, folder: str) -> None:
        found = [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]
        self.paths = sorted(path for path in found if path.endswith(".tgz"))
        self.url = ""

    def serve(self, port: int) -> str:
        """Where it is, as long as this process lives. Port 0 is any that is free."""
        answer = functools.partial(TarballAnswer, self)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/"
        return self.url

    def describe(self, name: str) -> dict[str, Any] | None:
        """All versions of a package, as registries describe them; None if there is none."""
        scope, _, bare = name.rpartition("/")
        begins = (f"{bare}-", f"{scope[1:]}-{bare}-") if scope else (f"{bare}-",)
        versions: dict[str, Any] = {}
        for number, path in enumerate(self.paths):
            if os.path.basename(path).startswith(begins) and (manifest := read_manifest(path)):
                file = f"{self.url}-/{number}/{quote(os.path.basename(path))}"
                if manifest["name"] == name:
                    versions[manifest["version"]] = manifest | {"dist": {**manifest["dist"], "tarball": file}}
        if not versions:
            return None
        return {"name": name, "dist-tags": {"latest": max(versions, key=precedence)}, "versions": versions}

    def path_of(self, place: str) -> str:
        """The tarball that `describe` has named; "" for any other place."""
        number = place.removeprefix("-/").partition("/")[0]
        is_known = place.startswith("-/") and number.isascii() and number.isdigit() and len(number) < 10
        return self.paths[int(number)] if is_known and int(number) < len(self.paths) else ""


class TarballAnswer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, tarballs: Tarballs, *connection: Any) -> None:
        self.tarballs = tarballs
        super().__init__(*connection)

    def do_GET(self) -> None:
        place = unquote(self.path.partition("?")[0].removeprefix("/"))
        if path := self.tarballs.path_of(place):
            with open(path, "rb") as file:
                return self.say(200, file.read())
        if described := self.tarballs.describe(place):
            return self.say(200, json.dumps(described).encode())
        return self.say(404, json.dumps({"error": f"{place[:200]} is not in the folder of tarballs"}).encode())

    def say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """npm tells of it."""


@functools.cache
def read_manifest(path: str) -> dict[str, Any] | None:
    """What a tarball says of itself, with its hash; None if it is no package."""
    found: Any = None
    has_gyp = False
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.removeprefix("./").partition("/")[2]
                has_gyp = has_gyp or name == "binding.gyp"
                if name == "package.json" and (file := archive.extractfile(member)):
                    found = json.loads(file.read(MAX_MANIFEST_BYTES))
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha512").digest()
    except (OSError, ValueError, RecursionError, EOFError, zlib.error, tarfile.TarError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return None
    if not isinstance(found.get("version"), str) or not VERSION.fullmatch(found["version"]):
        return None
    scripts = found.get("scripts")
    runs = has_gyp or (isinstance(scripts, dict) and any(name in scripts for name in INSTALL_SCRIPTS))
    dist = {"integrity": f"sha512-{base64.b64encode(digest).decode()}"}
    return {**found, **({"hasInstallScript": True} if runs else {}), "dist": dist}


def precedence(version: str) -> tuple[Any, ...]:
    """For sorting: as semver has it, and what is not released before all that is."""
    match = VERSION.fullmatch(version)
    assert match is not None
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in (match[4] or "").split(".")]
    return match[4] is None, [int(number) for number in match.groups()[:3]], parts


REPLIES = {
    ("uv", "about"): about,
    ("uv", "resolve"): resolve,
    ("uv", "install"): install,
    ("npm", "about"): about_node,
    ("npm", "resolve"): resolve_node,
    ("npm", "install"): install_node,
}


if __name__ == "__main__":
    main()

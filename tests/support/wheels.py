"""Wheels made by tests, and the folder of them that stands for an index."""

import base64
import hashlib
import stat
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path

from runner.packages.tools import find_uv
from tests.support.needs import missing


@cache
def _uv() -> Path | None:
    return find_uv()


def need_uv() -> Path:
    path = _uv()
    if path is None:
        missing("uv", "install it with `make setup`, or pip install uv")
    return path


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    *,
    requires: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """A wheel with one module of its own name, or with these files; `links` are symbolic ones."""
    module = name.replace("-", "_")
    content = {f"{module}.py": f"VERSION = {version!r}\n"} if files is None else dict(files)
    info = f"{module}-{version}.dist-info"
    content[f"{info}/METADATA"] = "\n".join(
        ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {it}" for it in requires)]
    )
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    rows = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in content.items():
            archive.writestr(inner, text)
        for inner, target in (links or {}).items():
            entry = zipfile.ZipInfo(inner)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(entry, target)
    return path


def make_sdist(folder: Path, name: str, trace: Path) -> Path:
    """A package without a wheel, whose build step leaves a trace."""
    path = folder / f"{name}-1.0.tar.gz"
    setup = (
        f"open({str(trace)!r}, 'w').write('built')\nfrom setuptools import setup\nsetup(name={name!r}, version='1.0')\n"
    )
    with tarfile.open(path, "w:gz") as archive:
        for inner, text in {"setup.py": setup, "PKG-INFO": f"Name: {name}\nVersion: 1.0\n"}.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{inner}")
            entry.size = len(text)
            archive.addfile(entry, BytesIO(text.encode()))
    return path


def asking_for(*dependencies: str, code: str, requires_python: str = "") -> str:
    """The text of a handler that asks for these."""
    lines = ["# /// script", f"# dependencies = {list(dependencies)!r}"]
    if requires_python:
        lines.append(f'# requires-python = "{requires_python}"')
    return "\n".join([*lines, "# ///", code])


def frame(kind: bytes, name: str = "", content: bytes = b"") -> bytes:
    """What a build sends."""
    return struct.pack("<cHQ", kind, len(name.encode()), len(content)) + name.encode() + content


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()

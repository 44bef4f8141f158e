"""A registry of node packages over HTTP, with tarballs that tests make. Some may lie on another one."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from runner.packages.tools import Node, find_node
from tests.support.needs import missing


@cache
def _node() -> Node | None:
    return find_node()


def need_npm() -> Node:
    found = _node()
    if found is None or found.npm is None:
        missing("npm", "install it with `make system` (Debian package npm)")
    return found


@dataclass
class NpmPackage:
    """By default one module, both kinds of import find it, that says which version it is."""

    name: str
    version: str = "1.0.0"
    files: Mapping[str, str] | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)  # of package.json

    @property
    def manifest(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, **self.fields}

    def tarball(self) -> bytes:
        files = {"index.js": f"exports.VERSION = {self.version!r};\n"} if self.files is None else self.files
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for name, text in {"package.json": json.dumps(self.manifest), **files}.items():
                info = tarfile.TarInfo(f"package/{name}")
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))
            for name, target in self.links.items():
                info = tarfile.TarInfo(f"package/{name}")
                info.type, info.linkname = tarfile.SYMTYPE, target
                archive.addfile(info)
        return gzip.compress(made.getvalue(), mtime=0)


class NpmRegistry:
    def __init__(self) -> None:
        self.port = 0
        self.elsewhere: dict[str, NpmRegistry] = {}
        """Packages whose files another registry has."""
        self.called: list[str] = []
        self.accounts: list[str] = []
        self._packages: dict[str, dict[str, NpmPackage]] = {}
        self._tarballs: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/npm/"

    def add(self, package: NpmPackage) -> None:
        self._packages.setdefault(package.name, {})[package.version] = package
        self._tarballs[self._file_of(package)] = package.tarball()

    async def answer(self, request: web.Request) -> web.Response:
        path = request.path.removeprefix("/npm/")
        self.called.append(path)
        self.accounts.append(request.headers.get("Authorization", ""))
        if path in self._tarballs:
            return web.Response(body=self._tarballs[path])
        versions = self._packages.get(path)
        if versions is None:
            return web.json_response({"error": "not found"}, status=404)
        described = {version: self._describe(package) for version, package in versions.items()}
        return web.json_response({"name": path, "dist-tags": {"latest": max(versions)}, "versions": described})

    def _describe(self, package: NpmPackage) -> dict[str, Any]:
        keeper = self.elsewhere.get(package.name, self)
        file = self._file_of(package)
        dist = {"tarball": f"{keeper.url}{file}", "integrity": integrity(self._tarballs[file])}
        scripts = {"hasInstallScript": True} if "install" in package.fields.get("scripts", {}) else {}
        return {**package.manifest, **scripts, "dist": dist}

    def _file_of(self, package: NpmPackage) -> str:
        return f"{package.name}/-/{package.name.rpartition('/')[2]}-{package.version}.tgz"


def write_tarballs(folder: Path, *packages: NpmPackage) -> None:
    """As `npm pack` names them."""
    folder.mkdir(exist_ok=True)
    for package in packages:
        name = package.name.removeprefix("@").replace("/", "-")
        (folder / f"{name}-{package.version}.tgz").write_bytes(package.tarball())


def integrity(data: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


@asynccontextmanager
async def npm_registry(*packages: NpmPackage) -> AsyncIterator[NpmRegistry]:
    registry = NpmRegistry()
    app = web.Application()
    app.router.add_get("/npm/{path:.+}", registry.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        registry.port = runner.addresses[0][1]
        for package in packages:
            registry.add(package)
        yield registry
    finally:
        await runner.cleanup()

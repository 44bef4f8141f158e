"""A real nginx with the configuration of `deploy/proxy`, on free ports, with a certificate made for the occasion."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from aiohttp import ClientError, ClientSession

from tests.support.daemon_process import free_port
from tests.support.deploy_files import DEPLOY
from tests.support.polling import until

_MAIN = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/functory.conf;
}}
"""


class Proxy:
    def __init__(self, folder: Path, changes: Mapping[str, str]) -> None:
        self.folder = folder
        self._changes = changes
        self.https_port = free_port()
        self.http_port = free_port()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.https_port}"

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def write(self, daemons: list[str]) -> None:
        """The configuration as it is, but for addresses, paths and the changes."""
        make_certificate(self.folder)
        text = (DEPLOY / "proxy" / "functory.conf").read_text()
        names = ["functory-a:8484", "functory-b:8484"]
        for name, address in zip(names, [*daemons, *daemons][:2], strict=True):
            assert name in text
            text = text.replace(name, address)
        for listen, own in {
            "listen 443 ssl;": f"listen 127.0.0.1:{self.https_port} ssl;",
            "    listen [::]:443 ssl;\n": "",
            "listen 80;": f"listen 127.0.0.1:{self.http_port};",
            "    listen [::]:80;\n": "",
            "/etc/nginx/tls": str(self.folder),
            **self._changes,
        }.items():
            assert listen in text, listen
            text = text.replace(listen, own)
        (self.folder / "functory.conf").write_text(text)
        (self.folder / "nginx.conf").write_text(_MAIN.format(folder=self.folder))


def make_certificate(folder: Path) -> None:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt"), "-subj", "/CN=localhost"]
    subprocess.run([*command, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)


@asynccontextmanager
async def nginx(
    program: str, folder: Path, *daemons: str, changes: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Proxy]:
    """In front of the daemons, each `host:port`. `changes` are texts of the configuration and what replaces them."""
    proxy = Proxy(folder, changes)
    await asyncio.to_thread(proxy.write, list(daemons))
    process = await asyncio.create_subprocess_exec(
        program, "-p", str(folder), "-c", str(folder / "nginx.conf"), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with ClientSession() as session:

            async def answers() -> bool:
                assert process.returncode is None, "nginx ended"
                try:
                    async with session.get(f"http://127.0.0.1:{proxy.http_port}/", allow_redirects=False) as answer:
                        return answer.status == 308
                except ClientError:
                    return False

            await until(answers)
        yield proxy
    finally:
        process.terminate()
        await process.wait()

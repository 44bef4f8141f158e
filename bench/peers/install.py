"""Peers are installed on demand, each into an environment of its own under .cache/peers, and never become ours.

Their servers are Debian's packages: as root they are installed, otherwise the command to do so is shown.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.peers.peer import BEANSTALKD, REDIS, Peer

CACHE: Final = Path(__file__).parents[2] / ".cache" / "peers"
PACKAGES: Final = {REDIS: ("redis-server", "redis-tools"), BEANSTALKD: ("beanstalkd", "beanstalkd")}
"""A server's program and Debian's package; redis-tools has the server without the service that would start it."""


class NotInstalled(Exception):
    """What is missing, and how to get it."""


def install(peer: Peer) -> Path:
    """The interpreter that runs the peer's programs. Raises NotInstalled."""
    folder = home(peer)
    stamp, wanted = folder / "installed", " ".join(peer.requires + peer.npm)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"  installing {peer.name}: {wanted or 'a plain interpreter'}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _install_npm(folder, peer.npm) if peer.npm else _install_python(folder, peer.requires)
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            raise NotInstalled(f"{peer.name} could not be installed: {error}") from error
        stamp.write_text(wanted)
    return Path(shutil.which("node") or "node") if peer.npm else folder / "bin" / "python"


def _install_python(folder: Path, requires: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if requires:
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *requires], check=True)


def _install_npm(folder: Path, packages: tuple[str, ...]) -> None:
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *packages], cwd=folder, check=True)


def home(peer: Peer) -> Path:
    """The environment of a peer, which its variants share."""
    return CACHE / peer.name.partition(" ")[0].lower()


def install_server(name: str) -> None:
    """Raises NotInstalled."""
    program, package = PACKAGES[name]
    if _has(program):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"  installing Debian's {package}", file=sys.stderr, flush=True)
        environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
            env=environ, check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    if not _has(program):
        raise NotInstalled(f"{program} is missing: sudo apt-get install {package}")


def _has(program: str) -> bool:
    return shutil.which(program) is not None

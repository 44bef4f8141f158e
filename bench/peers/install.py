"""Peers are installed on demand, each into an environment of its own under .cache/peers, and never become ours.

Their servers are Debian's packages, which `make bench-peers` installs (deploy/system-packages.sh).
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.peers.peer import BEANSTALKD, REDIS, Peer

CACHE: Final = Path(__file__).parents[2] / ".cache" / "peers"
PACKAGES: Final = {REDIS: ("redis-server", "redis-server"), BEANSTALKD: ("beanstalkd", "beanstalkd")}
"""A server's program and Debian's package."""


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


def require_server(name: str) -> None:
    """Raises NotInstalled."""
    program, package = PACKAGES[name]
    if shutil.which(program) is None:
        raise NotInstalled(f"{program} is missing: `make bench-peers` installs Debian's {package} as root")

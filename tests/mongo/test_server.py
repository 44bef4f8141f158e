"""The servers of the tests leave nothing behind, and say what they lack."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.mongo_server import ROOT, find_server

BUILD = ROOT / "tests" / "servers" / "mongo" / "build.sh"
RUN = "from tests.support.mongo_server import shared_server; print(shared_server().url, flush=True); input()"


def accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_killed_test_run_leaves_no_server_behind() -> None:
    server = find_server()
    server.close()
    if not server.can_be_killed:
        pytest.skip("the server of FUNCTORY_TEST_MONGODB_URL is not ours")
    run = subprocess.Popen([sys.executable, "-c", RUN], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdin is not None
    assert run.stdout is not None
    with run.stdin, run.stdout:
        port = urlsplit(run.stdout.readline().decode()).port
        assert port is not None
        assert accepts(port)
        run.kill()
        run.wait()
    deadline = time.monotonic() + 30
    while accepts(port):
        assert time.monotonic() < deadline, "the server outlived the process that started it"
        time.sleep(0.02)  # another process: there is no event to wait on


def test_what_the_build_lacks_is_said_in_plain_words(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "cat", "dirname", "mkdir", "sha256sum"):
        found = shutil.which(tool)
        assert found is not None
        (tools / tool).symlink_to(found)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("FUNCTORY_")}
    built = subprocess.run(
        ["bash", str(BUILD), str(tmp_path / "cache")],
        env=plain | {"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 1
    assert "mmdebstrap is missing" in built.stderr
    assert "make system" in built.stderr
    assert not (tmp_path / "cache" / "stamp").exists()

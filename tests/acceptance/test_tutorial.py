"""The second page of the tutorial, done as a newcomer does it: every file saved, every command run, in order."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.support.daemon_process import SANDBOXED, daemon, free_port, make_key
from tests.support.needs import need_isolation
from tests.support.newcomer import Newcomer, Step, running, steps
from tests.support.wheels import need_uv

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "tutorial-2.md"
[WRONG_TOKEN] = re.findall(r"`(STORAGE_TOKEN=wrong functory test \w+)`", PAGE.read_text())
[REFUSAL] = re.findall(r"`(HTTP Error [^`]+)`", PAGE.read_text())
[MASKED] = re.findall(r"The result is `([^`]+)`", PAGE.read_text())


async def test_the_second_page(tmp_path: Path) -> None:
    await asyncio.to_thread(need_isolation)
    await asyncio.to_thread(need_uv)
    todo = await asyncio.to_thread(lambda: list(steps(PAGE.read_text(), free_port())))
    began = next(number for number, step in enumerate(todo) if step.name == "storage.py")
    async with daemon(tmp_path / "data", SANDBOXED, http_allowed="127.0.0.1") as server:
        environ = {
            "FUNCTORY_URL": server.url,
            "FUNCTORY_TENANT": "acme",
            "FUNCTORY_KEY": await make_key(server, "acme"),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        newcomer = Newcomer(tmp_path, environ)
        said = "".join([await newcomer.do(step) for step in todo[: began + 1]])
        assert "packages: installing pillow" in said
        assert "2 of 2 examples gave what they expect" in said
        assert "thumbnail: version 1 is active" in said
        async with running(tmp_path / "storage.py"):
            said = "".join([await newcomer.do(step) for step in todo[began + 1 :]])
            refused = await newcomer.do(Step("", f"! {WRONG_TOKEN}"))
        assert REFUSAL in refused
        assert f"{MASKED}\n" in said
        assert "2 of 2 examples gave what they expect" in said
        assert "installing" not in said, "the package is there"
        assert '"stored":true' in said.replace(" ", "")
        assert "tr0ub4dor" not in server.log + said + refused

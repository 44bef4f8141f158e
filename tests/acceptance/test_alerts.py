"""The example of docs/alerts.md, done as it stands there: every file saved, every command run, in order."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.support.daemon_process import SANDBOXED, daemon, free_port, make_key
from tests.support.needs import need_isolation
from tests.support.newcomer import Newcomer, running, steps

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "alerts.md"
[TEST] = re.findall(r"`(TEST [^`]+)`", PAGE.read_text())
[FIRING] = re.findall(r"`(FIRING [^`]+)`", PAGE.read_text())


async def test_the_example_of_the_page(tmp_path: Path) -> None:
    await asyncio.to_thread(need_isolation)
    todo = await asyncio.to_thread(lambda: list(steps(PAGE.read_text(), free_port())))
    listed = next(number for number, step in enumerate(todo) if "alert list" in step.text)
    async with daemon(tmp_path / "data", SANDBOXED, http_allowed="127.0.0.1") as server:
        environ = {
            "FUNCTORY_URL": server.url,
            "FUNCTORY_TENANT": "acme",
            "FUNCTORY_KEY": await make_key(server, "acme"),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        }
        newcomer = Newcomer(tmp_path, environ)
        assert todo[0].name == "chat.py"
        await newcomer.do(todo[0])
        async with running(tmp_path / "chat.py") as chat, asyncio.timeout(120):
            said = "".join([await newcomer.do(step) for step in todo[1 : listed + 1]])
            assert [(await chat.readline()).decode().strip() for _ in range(2)] == [TEST, FIRING]
            assert "mail-fails is set." in said
            assert "more than 2 failures in 10 minutes" in said
            said = "".join([await newcomer.do(step) for step in todo[listed + 1 :]])
            assert "mail-fails is muted until" in said
            assert "mail-fails is deleted." in said

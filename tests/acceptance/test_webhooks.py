"""The examples of docs/webhooks.md, done as they stand there: every file saved, every command run, in order."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.support.daemon_process import SANDBOXED, daemon, make_key
from tests.support.needs import need_isolation
from tests.support.newcomer import Newcomer, steps

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "webhooks.md"
[RESULT] = re.findall(r"result is `([^`]+)`", PAGE.read_text())
[ANSWER] = re.findall(r"It prints `([^`]+)`", PAGE.read_text())


async def test_the_examples_of_the_page(tmp_path: Path) -> None:
    await asyncio.to_thread(need_isolation)
    todo = await asyncio.to_thread(lambda: list(steps(PAGE.read_text(), 0)))
    async with daemon(tmp_path / "data", SANDBOXED) as server, asyncio.timeout(120):
        environ = {
            "FUNCTORY_URL": server.url,
            "FUNCTORY_TENANT": "acme",
            "FUNCTORY_KEY": await make_key(server, "acme"),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        }
        newcomer = Newcomer(tmp_path, environ)
        said = [await newcomer.do(step) for step in todo]
        [_, made, _, pushed, shop, _, hello] = said
        assert f"Its address: {server.url}/acme/in/github" in made
        assert RESULT in pushed
        ids = re.findall(r"\d{8}T\d{9}Z-\w+-[0-9a-f]{6}", pushed)
        assert len(ids) >= 3
        assert len(set(ids)) == 1, "it was sent twice, and is one job"
        assert "shop is set." in shop
        assert ANSWER in hello

"""The commands of docs/consumers.md, run as they stand there against a whole daemon."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Final

from tests.support.served_daemon import served_daemon

PAGE: Final = Path(__file__).parents[2] / "docs" / "consumers.md"
SCRIPT: Final = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL))


async def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    folder = tmp_path / "reader"  # who has nothing but the page
    await asyncio.to_thread(folder.mkdir)
    async with served_daemon(tmp_path / "data") as served:
        bin_folder = Path(sys.executable).parent
        environment = {"FUNCTORY_URL": served.url, "FUNCTORY_KEY": served.key, "FUNCTORY_TENANT": "acme"}
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-euxc", SCRIPT, env={**environment, "PATH": f"{bin_folder}:/usr/bin:/bin"}, cwd=folder,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, trace = await process.communicate()
    assert process.returncode == 0, trace.decode()[-2000:]
    assert "verify works on block" in out.decode()
    assert " of 3 processed" in out.decode()
    assert "is followed by chunk" in out.decode()
    assert "sync works on height" in out.decode()
    assert SCRIPT.count("functory consumer") == 12

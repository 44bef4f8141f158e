"""The commands of docs/jobs.md, run as they stand against a daemon."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.support.command_line import clean_environ
from tests.support.daemon_process import daemon, make_key
from tests.support.needs import need_command

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
SAMPLES = re.findall(r"```sh\n(.*?)```", (DOCS / "jobs.md").read_text(), re.DOTALL)
[ALBUM] = re.findall(r"```json\n(\[\"ONE.*?)```", (DOCS / "jobs.md").read_text(), re.DOTALL)
[SYNCHRONOUS] = re.findall(r"```python\n(from functory\.sync .*?)```", (DOCS / "jobs.md").read_text(), re.DOTALL)
[EXPORTED] = re.findall(r"^export (FUNCTORY_.*)", (DOCS / "tutorial.md").read_text(), re.MULTILINE)


@pytest.fixture
def curl() -> str:
    return need_command("curl", "curl")


async def test_the_commands_of_the_page_work(tmp_path: Path, curl: str) -> None:
    album, keyed, late, own, chain, together, feed, schedule, report, changes, many = SAMPLES
    async with daemon(tmp_path / "data") as server:
        commands = f"{Path(sys.executable).parent}:{curl.rpartition('/')[0]}:/usr/bin:/bin"
        exported = dict(setting.split("=") for setting in EXPORTED.split())
        assert exported["FUNCTORY_TENANT"] == "acme"
        ours = {"FUNCTORY_URL": server.url, "FUNCTORY_KEY": await make_key(server, "acme")}
        exported = {name: ours.get(name, value) for name, value in exported.items()}
        environment = clean_environ() | exported | {"PATH": commands}

        async def run(script: str) -> str:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-euc",
                script,
                env=environment,
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(180):
                out, err = await process.communicate()
            assert process.returncode == 0, err.decode()
            return out.decode()

        listed = await run(album)
        assert listed.endswith(ALBUM.strip())
        assert re.findall(r"piece +archived +ok +200 +(.+)", listed) == ['"ONE"', '"TWO"', '"TWO AND A HALF"']
        assert '"booked bob +7"' in await run(keyed)
        assert '"the code is 4711"' in await run(late)
        assert re.search(r"^attempts +2 of 2$", await run(own), re.MULTILINE)
        assert '{"sum":7}' in await run(chain)
        assert len((await run(together)).split()) == 2
        assert await run(f"python - <<'END'\n{SYNCHRONOUS}END\n") == "BACK\nok\n"
        watched = await run(report)
        assert "is active\npage 1\npage 2\npage 3\npage 4\nid " in watched, "each line once, as it was printed"
        changed = await run(feed + schedule + changes)
        assert '{"last": 200}' in changed
        assert "2035-01-31" in changed
        assert changed.endswith("Deleted 1 job.\n")
        assert "jobs match." in await run(many)

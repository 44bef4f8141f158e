"""What runs outside the queue (`invoke`, the questions of consumers) is no job, and nobody gets at it as one."""

import asyncio
import os
from pathlib import Path

from handlers.model import Handler
from tests.support.service import running_daemon

TRY = """
import os
print("not for everybody who may read logs", flush=True)
with open({up!r}, "w") as file:
    file.write(ctx.id)
open({go!r}).close()
return ctx.id
"""


async def test_a_run_outside_the_queue_cannot_be_named_as_a_job(tmp_path: Path) -> None:
    """All had the same name, which is one that a job could have: whoever might cancel jobs ended those of others."""
    up, go = str(tmp_path / "up"), str(tmp_path / "go")
    for path in (up, go):
        await asyncio.to_thread(os.mkfifo, path)
    async with running_daemon(tmp_path) as daemon:
        handler = Handler("python", TRY.format(up=up, go=go))
        trial = asyncio.create_task(daemon.trial_runs.invoke("acme-x", handler, b""))
        seen = await asyncio.to_thread(Path(up).read_text)
        assert daemon.glimpse("acme", "invoke") is None
        assert not daemon.cancel_run("acme", "invoke")
        await asyncio.to_thread(Path(go).write_text, "")
        assert seen.startswith("invoke-")
        stopped = await trial
        assert stopped.id == seen
        assert (stopped.code, stopped.result) == ("ok", f'"{seen}"'.encode())

"""A daemon whose journal's position stays behind its jobs: `python -m tests.support.deleted_worker FOLDER STORE KIND`.

It prints the id of a job that has ended, is told on its standard input to delete it or not, says so, and waits until it
is killed. KIND is `alone`, or `flood`: then most of the lines of one request still wait in its memory.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

import functory.intake.journal_reader
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.execution.straight import waiting_jobs
from functory.operations.job_changes import delete_job
from functory.operations.principal import Principal
from functory.tenant_limits import TenantLimits
from functory.wire.scopes import TENANT_SCOPES
from store.base import JobState
from tests.support.service import running_daemon, until
from tests.support.straight import ready

WHO: Final = Principal("key", "acme", frozenset(TENANT_SCOPES), TenantLimits())
_LINES: Final = {"alone": 1, "flood": 1500}
_BODY: Final = "import time; time.sleep(0.05); return payload"


async def main(folder: Path, url: str, kind: str) -> None:
    vars(functory.intake.journal_reader).update(_KEEP_AFTER_S=3600.0)
    vars(waiting_jobs).update(RETURN_AFTER_S=3600.0, _RETURN_MANY_AFTER_S=3600.0, _LONGEST_S=3600.0)
    async with running_daemon(folder, store=url, poll="1h") as daemon:
        await ready(daemon, _BODY if kind == "flood" else "return payload")
        (job_id, *_) = await daemon.intake.write("acme-x", [b"1"] * _LINES[kind])
        await until(lambda: has_ended(daemon, job_id))
        say(job_id)
        if (await asyncio.to_thread(sys.stdin.readline)).strip() == "delete":
            say(str(await delete_job(service_of(daemon), WHO, job_id)))
        await asyncio.Event().wait()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def has_ended(daemon: Daemon, job_id: str) -> bool:
    states = await daemon.store.get_states("acme", [job_id], now_ms=daemon.clock.now_ms())
    return states.get(job_id) is JobState.ARCHIVED


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:4]))

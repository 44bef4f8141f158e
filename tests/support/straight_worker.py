"""A daemon that dies at one step of the straight way: `python -m tests.support.straight_worker FOLDER STEP NTH`.

It posts single jobs, one after the other, waits for each, and prints the ids that were acknowledged. With `flood` as a
last argument it waits for none. At the NTH time that STEP is reached the process is gone, as after a SIGKILL.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from functory.daemon.daemon import Daemon
from functory.execution.batches import Batches
from functory.execution.endings import Ending
from functory.execution.straight import waiting_jobs
from functory.execution.straight.way import StraightWay
from functory.intake.backlog import Backlog
from functory.intake.intake import Intake
from functory.intake.journal_reader import JournalReader
from journal import Journal
from store.checked import CheckedStore
from tests.support.service import running_daemon
from tests.support.straight import ready

JOBS: Final = 40
BODY: Final = "import time\nif payload.endswith('3'): time.sleep(0.12)\nreturn payload"
"""Some take so long that they are shown as running."""
PLACES: Final[dict[str, tuple[type, str]]] = {
    "admitted": (StraightWay, "admits"),
    "written": (Journal, "begin_write"),
    "durable": (Backlog, "_settled"),
    "taken": (StraightWay, "take"),
    "followed": (StraightWay, "follow"),
    "started": (StraightWay, "start"),
    "stopped": (Batches, "_on_stopped"),
    "recorded": (CheckedStore, "add_ended_jobs"),
    "shown": (CheckedStore, "add_running_jobs"),
    "arrived": (Intake, "arrived"),
    "read": (JournalReader, "_move"),
    "let go": (Journal, "rsync"),
    "position": (CheckedStore, "add_jobs"),
}
FLOOD: Final = 9000
_OF_ONE: Final = 1000
STEPS: Final = [f"{when} {place}" for place in PLACES if place != "followed" for when in ("before", "after")]
STEPS_OF_A_FLOOD: Final = [f"{when} {place}" for place in PLACES if place != "shown" for when in ("before", "after")]


def die_at(step: str, nth: int) -> None:
    when, _, place = step.partition(" ")
    owner, name = PLACES[place]
    work = getattr(owner, name)
    setattr(owner, name, (_asynchronous if asyncio.iscoroutinefunction(work) else _synchronous)(work, when, nth))


def _synchronous(work: Callable[..., Any], when: str, nth: int) -> Callable[..., Any]:
    calls = 0

    def run(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and when == "before":
            os._exit(9)
        result = work(*args, **more)
        if calls == nth:
            os._exit(9)
        return result

    return run


def _asynchronous(work: Callable[..., Any], when: str, nth: int) -> Callable[..., Any]:
    calls = 0

    async def run(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        mine = calls
        if mine == nth and when == "before":
            os._exit(9)
        result = await work(*args, **more)
        if mine == nth:
            os._exit(9)
        return result

    return run


async def main(folder: Path, step: str, nth: int, *, is_flood: bool) -> None:
    async with running_daemon(folder) as daemon:
        await ready(daemon, "return payload" if is_flood else BODY)
        if is_flood:
            die_at(step, nth)
            await flood(daemon)
        ended: dict[str, asyncio.Event] = {}

        def note(batch: Sequence[Ending]) -> None:
            for job, _, _ in batch:
                ended.setdefault(job.id, asyncio.Event()).set()

        daemon.outbox.when_released(note)
        die_at(step, nth)
        for number in range(JOBS):
            (job_id,) = await daemon.intake.write("acme-x", [b"%d" % number])
            sys.stdout.write(f"{job_id}\n")
            sys.stdout.flush()
            await ended.setdefault(job_id, asyncio.Event()).wait()


async def flood(daemon: Daemon) -> None:
    """None takes the long way for waiting long, however slow the machine is."""
    vars(waiting_jobs).update(RETURN_AFTER_S=3600.0, _RETURN_MANY_AFTER_S=3600.0, _LONGEST_S=3600.0)
    for start in range(0, FLOOD, _OF_ONE):
        ids = await daemon.intake.write("acme-x", [b"%d" % number for number in range(start, start + _OF_ONE)])
        sys.stdout.write("".join(f"{job_id}\n" for job_id in ids))
        sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), is_flood="flood" in sys.argv[4:]))

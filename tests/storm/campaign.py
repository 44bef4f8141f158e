"""One storm from start to verdict: deploy, load, strike, wait for the end of all work, read everything, judge."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from functory.client import Client
from tests.storm.adversary import Adversary, Recovery
from tests.storm.checker import Verdict, judge
from tests.storm.deployment import PROBE_TYPE, Deployment, deployed
from tests.storm.load import JOB_TYPE
from tests.storm.member import is_ready
from tests.storm.plan import Fault, Form
from tests.storm.records import Row, Story, read_lines
from tests.support.command_line import clean_environ
from tests.support.mongo_server import MongoServer
from tests.support.polling import until

_FAULT_S: Final = 3.0
"""About what a fault takes: the load is spread over them."""
_DISK_BYTES: Final = 48 << 20
_DISK_BYTES_PER_JOB: Final = 2048
_SAMPLE: Final = 1000
_STANDSTILL_S: Final = 60.0
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Result:
    form: Form
    verdict: Verdict
    story: Story
    recoveries: list[Recovery]
    left_out: Counter[str]
    """Faults of the plan that this machine does not allow."""
    calm_s: float
    counted: bool
    """Whether the scoreboard has each outcome once."""


async def run_storm(
    form: Form, faults: Sequence[Fault], jobs: int, seed: int, folder: Path, server: MongoServer | None
) -> Result:
    """Everything that was recorded is in `folder`/records afterwards."""
    disk_bytes = _DISK_BYTES + _DISK_BYTES_PER_JOB * jobs
    async with deployed(form, folder, server, disk_bytes) as deployment:
        allowed = [fault for fault in faults if fault.kind in deployment.kinds]
        left_out = Counter(str(fault.kind) for fault in faults if fault not in allowed)
        recoveries = await _strike(deployment, allowed, jobs, seed)
        async with deployment.client() as tenant:
            story = await _tell(deployment, tenant)
            counted = await _is_counted(tenant, story)
        assert not deployment.deaths()
        verdict = await asyncio.to_thread(judge, story)
        return Result(form, verdict, story, recoveries, left_out, deployment.calm_s, counted)


async def _strike(deployment: Deployment, faults: Sequence[Fault], jobs: int, seed: int) -> list[Recovery]:
    """All faults, under load; then until everything that was accepted has been worked off."""
    adversary = Adversary(deployment, seed)
    each = jobs // max(1, len(faults))
    try:
        async with load(deployment, seed, each / _FAULT_S, jobs) as client:
            recoveries = []
            for fault in faults:
                await client.progress(each // 2)
                recoveries.append(await adversary.strike(fault))
                assert not deployment.deaths()
            await client.finish()
        await adversary.let_time_pass(len(faults) + 1)
        for member in deployment.members:
            await until(partial(adversary.probe, member, ack="store"))  # then all that it took in is in the store
        async with deployment.client() as tenant:
            await _drain(tenant)
    finally:
        adversary.close()
    return recoveries


async def _tell(deployment: Deployment, tenant: Client) -> Story:
    rows = await _rows(tenant)
    for member in deployment.members:
        await until(partial(is_ready, member))  # by then it has also written the last line of its log
    story = await asyncio.to_thread(_read, deployment)
    story.rows = rows
    await _read_back(tenant, story)
    return story


class LoadProcess:
    """The client's process, as seen from here."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._news = asyncio.Condition()
        self._acknowledged = 0
        self._reading = asyncio.create_task(self._read())

    async def progress(self, count: int) -> None:
        """Until so many more were acknowledged: the storm is paced by work done, not by a clock."""
        goal = self._acknowledged + count
        async with self._news:
            await self._news.wait_for(lambda: self._acknowledged >= goal or self._reading.done())
        assert not self._reading.done(), "the load client has ended"

    async def finish(self) -> None:
        """The faults are over: until it has posted all of its jobs."""
        assert self._process.stdin
        self._process.stdin.write(b"calm\n")
        assert await self._process.wait() == 0
        await self._reading

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            async with self._news:
                self._acknowledged = int(line)
                self._news.notify_all()


@asynccontextmanager
async def load(deployment: Deployment, seed: int, rate: float, jobs: int) -> AsyncIterator[LoadProcess]:
    urls = ",".join(member.url for member in deployment.members)
    record = str(deployment.records / "client.log")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.storm.load", urls, deployment.key, record, str(seed), str(rate), str(jobs)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=clean_environ(),
        cwd=_ROOT,
    )
    client = LoadProcess(process)
    try:
        yield client
    finally:
        await client.end()


async def _drain(tenant: Client) -> None:
    """Until all work is done, or until it gets no less: then the judge shall say what is left."""
    left = await _left(tenant)
    while left:

        async def is_less(than: int = left) -> bool:
            return await _left(tenant) < than

        try:
            await until(is_less, timeout_s=_STANDSTILL_S)
        except TimeoutError:
            return
        left = await _left(tenant)


async def _left(tenant: Client) -> int:
    return sum(row.waiting + row.deferred + row.running for row in (await tenant.scoreboard()).types)


def _read(deployment: Deployment) -> Story:
    story = Story()
    for name in ("client", "adversary"):
        story.requests.read(read_lines(deployment.records / f"{name}.log"))
    for member in deployment.members:
        story.read_daemon(member.name, read_lines(member.log_path))
    if deployment.observer:
        story.read_observer(read_lines(deployment.observer))
    return story


async def _rows(tenant: Client) -> list[Row]:
    """Everything that the store has as ended."""
    rows: list[Row] = []
    cursor: str | None = None
    while True:
        page = await tenant.results(limit=1000, cursor=cursor)
        rows += [Row(job.id, job.code or "", job.attempts) for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return rows


async def _read_back(tenant: Client, story: Story) -> None:
    """The payloads of jobs whose id nobody was told, and of some others. A listing is without them."""
    every = max(1, len(story.rows) // _SAMPLE)
    for number, row in enumerate(story.rows):
        if number % every == 0 or row.id not in story.requests.acknowledged:
            story.payloads[row.id] = (await tenant.get_job(row.id)).payload or ""


async def _is_counted(tenant: Client, story: Story) -> bool:
    """The counters, which a crash may leave behind for upkeep to mend, agree with the jobs in the end."""
    expected = Counter(row.code for row in story.rows)

    async def agrees() -> bool:
        rows = [row for row in (await tenant.scoreboard()).types if row.type in (JOB_TYPE, PROBE_TYPE)]
        return (sum(row.ok for row in rows), sum(row.failed for row in rows)) == (expected["ok"], expected["failed"])

    try:
        return await until(agrees, timeout_s=30)
    except TimeoutError:
        return False

"""The storm over every form of the deployment. Lost 0, unexpected 0, nothing twice that no fault explains.

6 faults and 6,000 jobs in all; `make storm` makes them 200 and 1,000,000. FUNCTORY_STORM_SEED replays a storm: the
same faults in the same order with the same requests, though never at the very same instruction.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storm.campaign import Result, run_storm
from tests.storm.plan import FORMS, OTHER_WAYS, Form, make_plan
from tests.storm.report import complaint, summary
from tests.support.mongo_server import MongoServer, find_server
from tests.support.needs import missing, need_isolation

SEED = int(os.environ.get("FUNCTORY_STORM_SEED", "20261115"))
FAULTS = int(os.environ.get("FUNCTORY_STORM_FAULTS", "6"))
JOBS = int(os.environ.get("FUNCTORY_STORM_JOBS", "6000"))
KEPT = Path(__file__).parents[2] / ".cache" / "storm"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * FAULTS)]


@pytest.fixture
def server(form: Form) -> Iterator[MongoServer | None]:
    """The store's own server, which faults kill; none for SQLite."""
    if form.store == "sqlite":
        yield None
        return
    found = find_server()
    found.start()
    yield found
    found.close()


@pytest.fixture
def folder(form: Form) -> Path:
    """Not among pytest's own, of which it keeps only the latest: after a failure the records are what counts."""
    path = KEPT / f"{form.name}-{SEED}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize("form", [pytest.param(form, id=form.name) for form in (*FORMS, *OTHER_WAYS)])
async def test_storm(form: Form, server: MongoServer | None, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if form.is_sandboxed:
        await asyncio.to_thread(need_isolation)
    plan = make_plan(SEED, FAULTS) | make_plan(SEED, max(FAULTS // 5, 4), OTHER_WAYS)
    faults = plan[form.name]
    records = folder / "records"
    try:
        result = await run_storm(form, faults, round(JOBS * form.share), SEED, folder, server)
    except BaseException as error:
        error.add_note(f"FUNCTORY_STORM_SEED={SEED} replays it. The records are in {records}.")
        raise
    with capsys.disabled():
        print(summary(result, SEED))  # noqa: T201  # the figures are what a storm is run for
    is_good = result.verdict.is_good and result.counted and is_back_in_time(result)
    assert is_good, await asyncio.to_thread(complaint, result, SEED, records)
    await asyncio.to_thread(shutil.rmtree, folder)  # hundreds of megabytes, and of use only after a failure
    if result.left_out:
        missing(
            "the right to mount a tmpfs, or a store's server of our own", "run the tests as root, with `make mongo`"
        )


def is_back_in_time(result: Result) -> bool:
    """In the time of ten starts and a lease: a bound of this machine's own, so that a busy one keeps it, too."""
    bound_s = result.form.lease_s + 10 * result.calm_s
    return all(recovery.finished_s <= bound_s for recovery in result.recoveries)

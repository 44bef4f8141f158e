"""What a consumer could never get past, or would get past unseen, is refused; and what is there is named."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.job_options import JobOptions
from functory.operations import consumers
from functory.operations.consumers import Gap
from functory.operations.create import create_jobs
from functory.operations.idempotency import Fingerprint
from functory.operations.service import Service
from functory.operations.submit import Submission, submit_jobs, submit_lines, submit_once
from store.errors import Conflict
from tests.support.consumers import OK, WHO, add, put, standing_at
from tests.support.polling import until
from tests.support.service import register, running_daemon

REPEATS = JobOptions(repeat="FINISHED, +1 HOUR")
JOBS = [Submission(b"x"), Submission(b"x", REPEATS)]
WAYS: dict[str, Callable[[Service, str], Awaitable[object]]] = {
    "lines": lambda service, source: submit_lines(service, WHO, source, [b"x"], REPEATS),
    "jobs": lambda service, source: submit_jobs(service, WHO, source, JOBS),
    "unique": lambda service, source: submit_jobs(service, WHO, source, [Submission(b"x", REPEATS, unique="u")]),
    "once": lambda service, source: submit_once(service, WHO, source, JOBS, key=source, fingerprint=Fingerprint("f")),
    "several types": lambda service, source: create_jobs(service, WHO, [("other", JOBS[0]), (source, JOBS[1])]),
}


async def submitted(service: Service, source: str) -> list[str]:
    return (await submit_once(service, WHO, source, JOBS, key="k", fingerprint=Fingerprint("f"))).ids


KEYED: dict[str, Callable[[Service, str], Awaitable[list[str]]]] = {
    "submit": submitted,
    "create": lambda service, source: create_jobs(service, WHO, [(source, JOBS[1])], key="k", content="f"),
}
"""By the module of the operation."""
PULLED = "import json\nasked = json.loads(payload)\nreturn 8 if asked['ask'] == 'head' else {'index': asked['index']}"


async def head_of(daemon: Daemon) -> int:
    await daemon.intake.flush()
    return (await daemon.store.look_at_window("acme", "acme-block", after=0, until=0)).head


@pytest.mark.parametrize("way", WAYS)
async def test_a_job_of_a_consumed_type_cannot_repeat(tmp_path: Path, way: str) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await put(service)
        with pytest.raises(Conflict, match="has a consumer"):
            await WAYS[way](service, "block")
        assert await head_of(daemon) == 0, "nothing was added"
        await WAYS[way](service, "free")


@pytest.mark.parametrize("way", KEYED)
@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "not noted"])
async def test_a_request_that_is_repeated_gets_its_ids_although_there_is_a_consumer_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, is_noted: bool
) -> None:
    async def note_none(*_: object) -> None:
        """As if the first request had been interrupted."""

    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        with monkeypatch.context() as patched:
            if not is_noted:
                patched.setattr(f"functory.operations.{way}.note_added", note_none)
            ids = await KEYED[way](service, "block")
        await put(service)
        assert await KEYED[way](service, "block") == ids


async def test_jobs_that_are_posted_to_a_pulled_type_may_repeat(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await put(service, pull="chain")
        assert await submit_lines(service, WHO, "block", [b"x"], REPEATS)


async def test_the_gap_says_that_a_job_repeats_which_was_there_before(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await submit_lines(service, WHO, "block", [b"x"], REPEATS._replace(indexed=True))
        await daemon.intake.flush()
        await register(daemon, "acme-block", OK)
        await put(service)

        async def gap() -> Gap | None:
            return (await consumers.get_consumer(service, "acme", "verify")).gap

        assert "its job repeats" in (await until(gap)).why


async def test_a_pulled_consumer_begins_above_the_numbers_that_are_given(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-chain", PULLED, returns="value")
        await register(daemon, "acme-block", OK)
        await put(service)
        await add(daemon, [b"x"] * 2)
        await standing_at(service, 2)
        await consumers.delete_consumer(service, WHO, "verify")
        with pytest.raises(Conflict, match="the lowest start_index is 3"):
            await put(service, pull="chain", start_index=1)
        await put(service, pull="chain", start_index=7)
        await standing_at(service, 8)
        await consumers.delete_consumer(service, WHO, "verify")
        with pytest.raises(Conflict, match="the lowest start_index is 9"):
            await put(service, pull="chain", start_index=3)
        await put(service, pull="chain")

"""What a worker is told of the children of its jobs: the same over both links, of a whole take in bounded memory."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from functory.execution.families import RESULTS_BYTES, read_children
from functory.operations import worker_families
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.workers import return_taken
from functory.queue import Job, Queue
from functory.queue.remote import RemoteLink
from functory.web.http.outflow import Outflow
from functory.workers.values import Taken
from store.base import Job as StoredJob
from store.base import Store
from store.errors import StoreUnavailable
from tests.support.queue_places import Place, open_place


async def work_on_parts(queue: Queue, count: int, result: str) -> None:
    for _ in range(count):
        part = await queue.next("part")
        assert not part.children
        await (part.fail("no") if part.text == "bad" else part.done(part.text + result))


async def make_parts(album: Job) -> None:
    assert not album.children
    for word in album.text.split():
        album.add("part", word, child=True)
    await album.done("waits")


async def test_a_job_is_delivered_again_with_its_children(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("album", "part")
        (job_id,) = await queue.add("album", "good bad")
        await make_parts(await queue.next("album"))
        await work_on_parts(queue, 2, "!")
        album = await queue.next("album")
        assert album.id == job_id
        told = [(it["type"], it["state"], it["code"], it["exitcode"], it["result"]) for it in album.children]
        assert sorted(told) == [("part", "archived", "failed", 400, "no"), ("part", "archived", "ok", 200, "good!")]
        assert all(len(it["id"]) > 0 and it["result_bytes"] == len(it["result"]) for it in album.children)
        await album.done("complete")
    assert (await place.end(job_id)).result == b"complete"


async def test_what_a_take_cannot_hold_comes_with_the_next(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.open() as queue:
        await queue.register("album", "part")
        ids = await queue.add("album", "one", "two", "three")
        for _ in ids:
            await make_parts(await queue.next("album"))
        await work_on_parts(queue, 3, "x" * 1000)
        monkeypatch.setattr("functory.operations.worker_families.RESULTS_BYTES", 2000)
        seen: list[Job] = []
        while len(seen) < len(ids):
            some = await queue.take_some("album", limit=3, wait_s=30)
            assert 0 < len(some) <= 2
            seen += some
        assert sorted(job.id for job in seen) == sorted(ids)
        assert [job.attempts for job in seen] == [1, 1, 1], "what did not fit was given back unused"
        assert all(len(job.children[0]["result"]) > 1000 for job in seen)


async def test_a_report_is_answered_also_if_the_children_of_the_next_job_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> bytes:
        raise StoreUnavailable("it is away")

    async with open_place("remote", tmp_path) as place, place.open() as queue:
        await queue.register("album", "part")
        await queue.add("album", "one")
        await make_parts(await queue.next("album"))
        part = await queue.next("part")
        link = queue._link
        assert isinstance(link, RemoteLink)
        end = {"id": part.id, "token": part.delivery.token, "outcome": "ok"}
        with monkeypatch.context() as patched:
            patched.setattr("functory.operations.worker_families.read_children", away)
            answer = await link._client.report_jobs([end], take={"types": ["album"], "wait_s": 30})
        assert ([it.answer for it in answer.verdicts], answer.jobs) == (["ok"], [])
        album = await queue.next("album")
        assert (album.attempts, len(album.children)) == (1, 1), "it was given back unused"


class FirstReader:
    """Reads children; the first one has to wait until it may go."""

    def __init__(self) -> None:
        self.is_here = asyncio.Event()
        self.go = asyncio.Event()

    async def read(self, store: Store, job: StoredJob, now_ms: int) -> bytes:
        if not self.is_here.is_set():
            self.is_here.set()
            await self.go.wait()
        return await read_children(store, job, now_ms)


async def test_all_takes_of_a_tenant_have_room_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = FirstReader()
    monkeypatch.setattr("functory.web.http.edge.Outflow", lambda: Outflow(of_one_bytes=5 * RESULTS_BYTES))
    monkeypatch.setattr(worker_families, "_PATIENCE_S", 0.0)
    async with open_place("remote", tmp_path) as place, place.open() as queue, place.open() as other:
        await queue.register("album", "part")
        ids = await queue.add("album", "one", "two")
        for _ in ids:
            await make_parts(await queue.next("album"))
        await work_on_parts(queue, 2, "!")
        monkeypatch.setattr(worker_families, "read_children", first.read)
        taking = asyncio.create_task(queue.take_some("album", wait_s=30))
        await first.is_here.wait()
        assert await other.take_some("album", wait_s=30) == [], "while what the first is told may fill the room"
        first.go.set()
        seen = [*(await taking), await other.next("album")]
        assert sorted(job.id for job in seen) == sorted(ids)
        assert [(job.attempts, len(job.children)) for job in seen] == [(1, 1), (1, 1)], "it was given back unused"


async def test_results_are_counted_as_they_are_sent(tmp_path: Path) -> None:
    async with open_place("remote", tmp_path) as place, place.open() as queue:
        await queue.register("album", "part")
        await queue.add("album", "x " * 30)
        await make_parts(await queue.next("album"))
        for _ in range(30):
            await (await queue.next("part")).done(b"\0" * 65_536)
        results = [it["result"] or "" for it in (await queue.next("album")).children]
        assert len(results) == 30
        assert len(results[0]) == 65_536
        assert 6 * sum(map(len, results)) < 2 * RESULTS_BYTES, "each of these characters is six in JSON"


async def test_a_take_that_ends_while_some_are_given_back_gives_all_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def stuck_at_first(service: Service, who: Principal, jobs: Sequence[Taken]) -> None:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        await return_taken(service, who, jobs)

    async with open_place("in process", tmp_path) as place, place.open() as queue:
        await queue.register("album", "part")
        ids = await queue.add("album", "one", "two")
        for _ in ids:
            await make_parts(await queue.next("album"))
        await work_on_parts(queue, 2, "!")
        with monkeypatch.context() as patched:
            patched.setattr(worker_families, "RESULTS_BYTES", 1)
            patched.setattr(worker_families, "return_taken", stuck_at_first)
            taking = asyncio.create_task(queue.take_some("album", limit=2, wait_s=30))
            await begun.wait()
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
        seen = [await queue.next("album") for _ in ids]
        assert sorted(job.id for job in seen) == sorted(ids)
        assert [job.attempts for job in seen] == [1, 1], "no lease had to lapse"

"""What a worker is told of the children of its jobs: the same over both links, of a whole take in bounded memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.queue import Job, Queue
from functory.queue.remote import RemoteLink
from store.errors import StoreUnavailable
from tests.support.queue_places import KINDS, Place, open_place


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request.param, tmp_path) as opened:
        yield opened


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

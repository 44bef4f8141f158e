"""Several jobs in one request: their results once they have ended, in answers of a bounded size."""

import asyncio
from functools import partial
from typing import Any

import pytest

from functory.client import Client
from functory.operations.keys import create_key
from functory.web.api import waiting
from functory.web.http.outflow import LARGE_BYTES
from functory.wire.jobs import EndedJobs, Job
from store.base import JobRecord
from tests.support.service import until
from tests.support.web import Answer, Site

WAIT = "/acme/jobs/wait"


async def ask(site: Site, ids: list[str], wait_s: float = 0.0, **more: Any) -> Answer:
    return await site.post(WAIT, json={"ids": ids, "wait_s": wait_s}, **more)


def codes(answer: Answer) -> list[tuple[str, str | None]]:
    return [(job["id"], job["code"]) for job in answer.json["jobs"]]


async def test_the_answer_comes_when_all_have_ended(site: Site) -> None:
    ids = await site.add("one", "two", "three")
    asking = asyncio.ensure_future(ask(site, ids[::-1], 30))
    await site.waiters.waiting.wait()
    await site.run(1)
    site.waiters.tell(ids[0])
    await asyncio.sleep(0)
    assert not asking.done()
    await site.run(2, result=b"late")
    for job_id in ids:
        site.waiters.tell(job_id)
    answer = await asking
    assert codes(answer) == [(job_id, "ok") for job_id in ids[::-1]]
    assert [job["result"] for job in answer.json["jobs"]] == ["late", "late", "done"]
    assert [job["payload"] for job in answer.json["jobs"]] == ["three", "two", "one"]
    assert (answer.json["gone"], answer.json["left"]) == ([], [])


async def test_what_has_not_ended_in_time_is_shown_as_it_is(site: Site) -> None:
    ids = await site.add("one", "two")
    await site.run(1)
    answer = await ask(site, ids, 0.01)
    assert codes(answer) == [(ids[0], "ok"), (ids[1], None)]


async def test_what_is_not_there_is_named_and_holds_up_nothing(site: Site) -> None:
    ids = await site.add("one", "two")
    await site.run()
    await site.call("DELETE", f"/acme/job/{ids[0]}")
    answer = await ask(site, [*ids, ids[1]], 30)
    assert codes(answer) == [(ids[1], "ok")]
    assert answer.json["gone"] == [ids[0]]


async def test_an_answer_has_a_bounded_size_and_says_what_is_left(site: Site) -> None:
    ids = await site.add("one", "two", "three", "four")
    for part in (3, 2, 3, 8):
        await site.run(1, result=b"x" * (LARGE_BYTES * part // 7))
    first = await ask(site, ids)
    assert [job["id"] for job in first.json["jobs"]] == ids[:2]
    assert first.json["left"] == ids[2:]
    fits, alone = (await ask(site, first.json["left"])).json["jobs"]
    assert len(fits["result"]) == LARGE_BYTES * 3 // 7
    assert (alone["result"], alone["result_bytes"]) == (None, LARGE_BYTES * 8 // 7), "too large for such an answer"


async def test_many_small_ones_come_in_several_answers(site: Site) -> None:
    ids = await site.add(*map(str, range(500)))
    for _ in range(5):
        await site.run()
    first = await ask(site, ids)
    assert 100 < len(first.json["jobs"]) < 500
    assert len(first.body) <= 1.5 * LARGE_BYTES
    assert [*(job["id"] for job in first.json["jobs"]), *first.json["left"]] == ids


async def test_options_and_history_count_too(site: Site) -> None:
    rows = [{"payload": "x", "options": {"o": "z" * 16_000}} for _ in range(40)]
    ids = (await site.post("/acme/job/thumb/add", json=rows)).json["ids"]
    await site.run()
    first = await ask(site, ids)
    assert len(first.body) <= 1.2 * LARGE_BYTES
    assert [*(job["id"] for job in first.json["jobs"]), *first.json["left"]] == ids


async def test_a_large_answer_is_not_kept_while_others_run(site: Site) -> None:
    ids = await site.add("one", "two", "three")
    await site.run(1, result=b"x" * 40_000)
    answer = await ask(site, ids, 60)
    assert (codes(answer), answer.json["left"]) == ([(ids[0], "ok")], ids[1:])


async def test_looks_that_take_long_do_not_add_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await site.add("one", "two", "three")
    monkeypatch.setattr(waiting, "_GRACE_S", -1.0)
    answer = await ask(site, ids)
    assert (codes(answer), answer.json["left"]) == ([(ids[0], None)], ids[1:]), "one at least, so that it goes on"


async def test_a_job_that_has_not_ended_is_read_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await site.add("one", "two")
    await ask(site, ids)
    reads = []
    get_job = site.store.get_job

    async def count(*names: str, **more: Any) -> JobRecord | None:
        reads.append(names)
        return await get_job(*names, **more)

    monkeypatch.setattr(site.store, "get_job", count)
    await ask(site, ids)
    assert len(reads) == 2


async def test_another_tenants_jobs_are_not_there(site: Site) -> None:
    (theirs,) = await site.add("x", path="/other/job/thumb/add", key="other")
    answer = await ask(site, [theirs], 30)
    assert (answer.json["jobs"], answer.json["gone"]) == ([], [theirs])


@pytest.mark.parametrize("body", [{}, {"ids": []}, {"ids": ["a b"]}, {"ids": "x"}, {"ids": [1]}, {"ids": None}])
async def test_ids_that_are_none_are_refused_by_name(site: Site, body: dict[str, object]) -> None:
    answer = await site.post(WAIT, json=body)
    assert answer.status == 422
    assert answer.json["error"]["detail"]["field"].startswith("ids")


async def test_too_many_or_too_long_is_refused(site: Site) -> None:
    (job_id,) = await site.add("x")
    assert (await ask(site, [job_id] * 1001)).status == 422
    assert (await ask(site, [job_id], 61)).status == 422


async def test_it_needs_the_right_to_read(site: Site) -> None:
    _, site.keys["adds"] = await create_key(site.service, "test", "acme", scopes=("submit",))
    (job_id,) = await site.add("x")
    assert (await ask(site, [job_id], key="adds")).status == 403


async def test_the_client_asks_until_it_has_all(site: Site) -> None:
    async with Client(site.url, site.keys["acme"], tenant="acme") as client:
        ids = await site.add(*map(str, range(450)))
        waiting = asyncio.ensure_future(client.wait_for_jobs([*ids, ids[0]]))
        for _ in range(5):
            for job_id in await until(partial(site.run, result=b"1")):
                site.waiters.tell(job_id)
        found = await waiting
        assert list(found) == ids
        assert {job and job.result for job in found.values()} == {"1"}
        (late,) = await site.add("y")
        await client.delete_job(ids[0])
        found = await client.wait_for_jobs([late, ids[0], ids[1]], timeout_s=0.01)
        assert [job and job.state for job in found.values()] == ["waiting", None, "archived"]


async def test_the_client_tells_of_a_job_that_went_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Job("a", "thumb", "running", 500, attempts=1, due_ms=0, created_ms=0)
    answers = [EndedJobs([running], [], []), EndedJobs([], ["a"], [])]

    async def get_jobs(*_: object, **__: object) -> EndedJobs:
        return answers.pop(0)

    async with Client("http://127.0.0.1:1", "k", tenant="acme") as client:
        monkeypatch.setattr(client, "get_jobs", get_jobs)
        assert await client.wait_for_jobs(["a"]) == {"a": None}

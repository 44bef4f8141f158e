"""The log and the progress of a job that runs, over HTTP, by the client, on the command line and on its page."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.client import Client
from functory.errors import ClientError
from functory.operations.job_log import rest_of
from functory.web.http.settings import WebSettings
from functory.wire.progress_text import progress_text
from store.base import Archive, Code, Outcome, Retry
from tests.support.pages import visitor
from tests.support.web import Site, open_site

PATIENCE_S = 20.0


@pytest.fixture
async def patient_site(tmp_path: Path) -> AsyncIterator[Site]:
    """Its streams go on for longer than any test takes."""
    async with open_site(tmp_path, settings=WebSettings(port=0, shutdown_s=1.0)) as site:
        yield site


async def running(site: Site, text: bytes, progress: bytes = b"") -> str:
    (job_id,) = await site.add("x")
    await site.service.intake.flush()
    now_ms = site.service.now_ms()
    await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=60_000, now_ms=now_ms)
    site.control.glimpses["acme", job_id] = (text, progress)
    return job_id


async def end(site: Site, job_id: str, log: bytes) -> None:
    now_ms = site.service.now_ms()
    outcome = Outcome(Code.OK, 200, now_ms, log=log)
    await site.store.release_jobs("a7", [Archive(job_id, 1, outcome)], now_ms=now_ms)


async def test_the_log_of_a_running_job_is_what_it_has_printed(site: Site) -> None:
    job_id = await running(site, b"one\n<b>two</b>\n", b'{"page": 2}')
    answer = await site.get(f"/acme/job/{job_id}/log")
    assert (answer.status, answer.body) == (200, b"one\n<b>two</b>\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert (await site.get(f"/acme/job/{job_id}")).json["progress"] == {"page": 2}
    assert (await site.get(f"/other/job/{job_id}/log")).status == 403
    async with visitor(site, "acme") as acme:
        page = (await acme.get(f"/ui/t/acme/job/{job_id}")).text
        assert "&lt;b&gt;two&lt;/b&gt;" in page
        assert "<b>two" not in page
        assert "{&#34;page&#34;: 2}" in page


async def test_a_followed_log_comes_in_parts_and_ends_with_the_job(site: Site) -> None:
    job_id = await running(site, b"one\n")
    async with Client(site.url, site.keys["acme"], "acme") as client:
        parts = client.follow_log(job_id)
        assert await anext(parts) == "one\n"
        site.control.glimpses["acme", job_id] = (b"one\ntwo\n", b"")
        assert await anext(parts) == "two\n"
        del site.control.glimpses["acme", job_id]
        await end(site, job_id, b"one\ntwo\nthree\n")
        assert [part async for part in parts] == ["three\n"], "what was printed between the last look and the end"
        assert await client.get_log(job_id) == b"one\ntwo\nthree\n"
        with pytest.raises(ClientError, match="there is no job"):
            await anext(client.follow_log(job_id[:-1] + "f"))


async def try_again(site: Site, job_id: str, *logs: bytes, shows: bytes) -> None:
    """Runs that leave these logs ask for a retry; then one has begun that shows this."""
    now_ms = site.service.now_ms()
    for token, log in enumerate(logs, 1):
        outcome = Outcome(Code.RETRY, 503, now_ms, log=log)
        retry = Retry(job_id, token, dt_ms=now_ms, outcome=outcome)
        await site.store.release_jobs("a7", [retry], now_ms=now_ms)
        await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=60_000, now_ms=now_ms)
    site.control.attempts["acme", job_id] = len(logs) + 1
    site.control.glimpses["acme", job_id] = (shows, b"")


@pytest.mark.parametrize(
    ("logs", "shown"),
    [
        ([b"one\nend\n"], "end\n"),
        ([b"one\nend\n", b"2\n", b"3\n"], "[what was printed before attempt 3 is not kept]\n3\n"),
    ],
)
async def test_the_end_of_an_attempt_is_shown_although_the_next_has_begun(
    patient_site: Site, logs: list[bytes], shown: str
) -> None:
    site = patient_site
    job_id = await running(site, b"one\n")
    async with Client(site.url, site.keys["acme"], "acme") as client, asyncio.timeout(PATIENCE_S):
        parts = client.follow_log(job_id)
        assert await anext(parts) == "one\n"
        await try_again(site, job_id, *logs, shows=b"the next has printed more\n")
        assert [await anext(parts), await anext(parts)] == [shown, "the next has printed more\n"]


async def test_the_last_event_has_the_outcome(site: Site) -> None:
    job_id = await running(site, b"")
    del site.control.glimpses["acme", job_id]
    await end(site, job_id, b"said\n")
    answer = await site.get(f"/acme/job/{job_id}/log?follow=1")
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = [block.split("\n") for block in answer.body.decode().strip().split("\n\n")]
    assert events == [
        ["event: log", 'data: "said\\n"'],
        ["event: end", f"data: {json.dumps({'code': 'ok', 'exitcode': 200})}"],
    ]


async def test_what_goes_wrong_while_a_log_is_followed_is_its_last_event(patient_site: Site) -> None:
    site = patient_site
    job_id = await running(site, b"one\n")
    async with (
        Client(site.url, site.keys["acme"], "acme") as client,
        site.session.get(
            f"{site.url}/acme/job/{job_id}/log?follow=1", headers={"Authorization": f"Bearer {site.keys['acme']}"}
        ) as answer,
        asyncio.timeout(PATIENCE_S),
    ):
        parts = client.follow_log(job_id)
        assert await anext(parts) == "one\n"
        await answer.content.readuntil(b"\n\n")
        await end(site, job_id, b"one\n")
        await site.store.delete_jobs("acme", [job_id], now_ms=site.clock.now_ms())
        del site.control.glimpses["acme", job_id]
        event, data = (await answer.content.read()).decode().strip().split("\n")
        assert event == "event: error"
        error = json.loads(data.removeprefix("data: "))
        assert (error["status"], error["error"]["code"]) == (404, "missing")
        with pytest.raises(ClientError, match="there is no job") as caught:
            await anext(parts)
        assert caught.value.status == 404


async def test_one_key_has_only_so_many_streams(site: Site) -> None:
    job_id = await running(site, b"one\n")
    path = f"/acme/job/{job_id}/log?follow=1"
    answers = await asyncio.gather(*(site.get(path) for _ in range(22)))
    assert sorted(answer.status for answer in answers) == [200] * 20 + [503] * 2
    assert (await site.get(path)).status == 200, "their places are free again"


@pytest.mark.parametrize(
    ("log", "offset", "rest"),
    [
        (b"", 0, b""),
        (b"a\nb\n", 0, b"a\nb\n"),
        (b"a\nb\n", 2, b"b\n"),
        (b"a\nb\n", 4, b""),
        (b"[4 bytes before this were dropped]\nc\nd\n", 6, b"d\n"),
        (b"[4 bytes before this were dropped]\nc\nd\n", 2, b"[2 bytes were dropped]\nc\nd\n"),
        (b"[4 bytes before this were dropped]\nc\n", 0, b"[4 bytes before this were dropped]\nc\n"),
    ],
)
def test_the_rest_of_a_log_after_what_was_shown(log: bytes, offset: int, rest: bytes) -> None:
    assert rest_of(log, offset) == rest


@pytest.mark.parametrize("progress", [b"1" + b"0" * 400, b"***", b'{"at": ***}', b"[1e400]"])
async def test_odd_progress_is_shown(site: Site, progress: bytes) -> None:
    """Such as one in which the value of a secret was hidden."""
    job_id = await running(site, b"", progress)
    assert (await site.get(f"/acme/job/{job_id}")).status == 200
    async with visitor(site, "acme") as acme:
        assert (await acme.get(f"/ui/t/acme/job/{job_id}")).status == 200


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (50, "█" * 15 + "░" * 15 + " 50 %"),
        (250, "█" * 30 + " 250 %"),
        (25.333333, "█" * 8 + "░" * 22 + " 25.3 %"),
        (-3.5, "░" * 30 + " -3.5 %"),
        ("reading", "reading"),
        ({"done": 3}, '{"done": 3}'),
        (True, "true"),
        (10**400, "1" + "0" * 400),
        (-(10**400), "-1" + "0" * 400),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
    ],
)
def test_progress_in_one_line(progress: object, text: str) -> None:
    assert progress_text(progress) == text

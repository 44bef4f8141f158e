"""Who waits for jobs over HTTP gets their ends: of those that are not kept, of large ones, and never an old one."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.execution.straight import recent_ends
from functory.intake import journal_reader
from tests.support.command_line import functory
from tests.support.served_daemon import Served, served_daemon
from tests.support.service import until
from tests.support.straight_times import set_straight_times

LARGE = "return 'x' * 1_500_000"
WHEN_TOLD = """
import os, time
while payload.startswith("/") and not os.path.exists(payload):
    time.sleep(0.01)
return payload
"""


@pytest.fixture(params=["on", "off"], ids=["straight", "the long way"])
async def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    set_straight_times(monkeypatch)
    monkeypatch.setattr(journal_reader, "_KEEP_AFTER_S", 3600.0)
    async with served_daemon(tmp_path, straight=request.param) as served:
        yield served


async def ask(served: Served, method: str, path: str, body: object = None) -> tuple[int, Any]:
    data, headers = (None, {}) if body is None else (json.dumps(body).encode(), {"Content-Type": "application/json"})
    reply = await asyncio.to_thread(served.client.ask, method, f"/acme/{path}", data, headers)
    return reply.status, json.loads(reply.body)


async def add(served: Served, *payloads: str, query: str = "") -> tuple[int, Any]:
    reply = await asyncio.to_thread(served.client.add, "\n".join(payloads).encode(), "x", query)
    return reply.status, json.loads(reply.body)


async def register(served: Served, body: str, keep: str) -> None:
    """With a look that saw that nothing waits: jobs may go the straight way."""
    assert (await asyncio.to_thread(served.client.register, body, keep=keep)).status < 300

    async def looked() -> bool:
        return served.daemon.executor.is_clear("acme-x")

    await until(looked)


async def ended(served: Served) -> str:
    _, added = await add(served, "first")
    (job_id,) = added["ids"]
    _, job = await ask(served, "GET", f"job/{job_id}?wait_s=60")
    assert (job["state"], job["payload"]) == ("archived", "first")
    return str(job_id)


async def test_jobs_that_end_long_before_the_first_of_them_and_are_not_kept_are_shown(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_ends, "_LIFE_S", -1.0)  # however quick the test is, it is long
    gate = tmp_path / "gate"
    await register(served, WHEN_TOLD, "none")
    adding = asyncio.ensure_future(add(served, str(gate), "second", "third", query="?wait_s=60"))

    async def others_have_ended() -> bool:
        rows = await served.daemon.store.get_counters("acme", now_ms=served.daemon.clock.now_ms())
        return any(row.ok == 2 for row in rows)

    await until(others_have_ended)
    await asyncio.to_thread(gate.touch)
    status, added = await adding
    assert (status, len(added["ids"])) == (200, 3)
    shown = [(job["id"], job["code"], job["payload"]) for job in added["jobs"]]
    assert shown == list(zip(added["ids"], ["ok"] * 3, [str(gate), "second", "third"], strict=True))


async def test_a_large_result_that_is_not_kept_is_for_who_waits(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    await register(served, WHEN_TOLD.replace("return payload", LARGE), "none")
    _, added = await add(served, str(gate))
    (job_id,) = added["ids"]
    waiting = asyncio.ensure_future(ask(served, "GET", f"job/{job_id}?wait_s=60"))
    await until(lambda: is_awaited(served, job_id))
    await asyncio.to_thread(gate.touch)
    status, job = await waiting
    assert (status, job["code"], job["result"]) == (200, "ok", json.dumps("x" * 1_500_000))
    status, added = await add(served, "a", query="?wait_s=60")
    assert (status, [(job["code"], job["result_bytes"]) for job in added["jobs"]]) == (200, [("ok", 1_500_002)])
    assert not served.daemon.straight.recent._awaited, "and for nobody else"


async def test_the_log_of_a_job_that_is_not_kept_is_followed_to_its_end(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = "print('hi', flush=True)\n" + WHEN_TOLD
    await register(served, body.replace("return payload", LARGE), "none")
    _, added = await add(served, str(gate))
    told = {"FUNCTORY_URL": served.url, "FUNCTORY_KEY": served.key, "FUNCTORY_TENANT": "acme"}
    following = asyncio.ensure_future(functory("job", "logs", "-f", added["ids"][0], **told))
    await until(lambda: is_awaited(served, added["ids"][0]))
    await asyncio.to_thread(gate.touch)
    assert await following == (0, "hi\n", "")


async def is_awaited(served: Served, job_id: str) -> bool:
    return job_id in served.daemon.straight.recent.awaited_of("acme")


async def test_jobs_that_are_gone_are_shown_as_accepted(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a daemon beside the one that ran them."""
    await register(served, WHEN_TOLD, "none")
    monkeypatch.setattr(served.daemon.straight.recent, "add", lambda *_, **__: None)
    status, added = await add(served, "a", "b", query="?wait_s=60")
    assert status == 200
    shown = [(job["id"], job["type"], job["state"], job["code"], job["message"][:15]) for job in added["jobs"]]
    assert shown == [(job_id, "x", "archived", None, "ended, not kept") for job_id in added["ids"]]


async def test_a_job_that_was_retried_is_waited_for_again(served: Served) -> None:
    await register(served, WHEN_TOLD, "all")
    job_id = await ended(served)
    assert (await ask(served, "POST", f"job/{job_id}/retry", {"payload": "second"}))[0] == 200
    _, job = await ask(served, "GET", f"job/{job_id}?wait_s=60")
    assert (job["state"], job["payload"], job["result"]) == ("archived", "second", '"second"')
    assert (await ask(served, "POST", f"job/{job_id}/retry", {"delay_s": 3600}))[0] == 200
    _, job = await ask(served, "GET", f"job/{job_id}?wait_s=0.01")
    assert job["state"] == "deferred"


async def test_a_job_that_was_deleted_is_not_waited_for(served: Served) -> None:
    await register(served, WHEN_TOLD, "all")
    job_id = await ended(served)
    assert (await ask(served, "DELETE", f"job/{job_id}"))[0] == 200
    assert (await ask(served, "GET", f"job/{job_id}?wait_s=60"))[0] == 404

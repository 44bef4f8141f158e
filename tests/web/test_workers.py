"""Workers over HTTP: each item with its verdict, hostile bodies, closed connections."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from functory.client import Client
from functory.errors import ClientError
from functory.operations.keys import create_key
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from functory.wire.jobs import Added
from store.base import Code
from tests.support.pages import visitor
from tests.support.served_daemon import Served, served_daemon
from tests.support.service import ended, until
from tests.support.web import Site
from tests.support.worker_calls import lease, post, report, take


async def test_a_batch_is_reported_and_the_next_is_taken_in_one_round_trip(site: Site) -> None:
    ids = await post(site, "1", "2", "3")
    jobs = await take(site, limit=2, lease_s=60, worker={"name": "gpu-1", "host": "box", "version": "7", "capacity": 2})
    assert [(job["id"], job["type"], job["payload"], job["attempts"]) for job in jobs] == [
        (ids[0], "resize", "1", 1),
        (ids[1], "resize", "2", 1),
    ]
    assert (jobs[0]["lease_s"], jobs[0]["timeout_s"], jobs[0]["is_renewable"]) == (60.0, None, True)
    (row,) = (await site.get("/acme/workers")).json["workers"]
    assert (row["name"], row["host"], row["version"], row["types"], row["running"]) == (
        "gpu-1",
        "box",
        "7",
        ["resize"],
        2,
    )
    answer = await report(
        site,
        {**lease(jobs[0]), "outcome": "ok", "result": {"width": 40}, "log": "fine"},
        {**lease(jobs[1]), "outcome": "retry", "delay_s": 60, "payload": "from 17", "result": "busy"},
        take={"types": ["*"], "limit": 5},
    )
    assert [(row["answer"], row["status"], row["code"]) for row in answer["verdicts"]] == [
        ("ok", 200, "ok"),
        ("ok", 200, "retry"),
    ]
    assert [job["payload"] for job in answer["jobs"]] == ["3"]
    done = (await site.get(f"/acme/job/{ids[0]}")).json
    assert (done["code"], done["result"], done["log"], done["isolation"]) == (
        "ok",
        '{"width":40}',
        "fine\n",
        "external",
    )
    again = (await site.get(f"/acme/job/{ids[1]}")).json
    assert (again["state"], again["payload"], again["result"]) == ("deferred", "from 17", "busy")
    assert [row["daemon"] for row in again["history"]] == ["workers"]


async def test_a_late_token_is_409_for_that_item_alone(site: Site) -> None:
    ids = await post(site, "1", "2")
    first, second = await take(site)
    late = {**lease(first), "token": first["token"] + 1}
    unknown = {"id": "20270115T080000000Z-a7-0000ff", "token": 1}
    answer = await report(
        site,
        {**late, "outcome": "ok", "result": "wrong", "new_jobs": [{"type": "resize", "payload": "x"}]},
        {**unknown, "outcome": "ok"},
        {**lease(second), "exitcode": 404, "result": "no such file"},
    )
    assert [(row["status"], row["answer"]) for row in answer["verdicts"]] == [
        (409, "late"),
        (404, "unknown"),
        (200, "ok"),
    ]
    assert (await site.get(f"/acme/job/{ids[0]}")).json["state"] == "running"
    failed = (await site.get(f"/acme/job/{ids[1]}")).json
    assert (failed["code"], failed["exitcode"], failed["message"]) == ("failed", 404, "no such file")
    renewed = (await site.post("/acme/work/renew", json={"leases": [late, lease(first)], "lease_s": 90})).json
    assert [row["status"] for row in renewed["verdicts"]] == [409, 200]
    assert renewed["verdicts"][1]["lease_until_ms"] == site.clock.now_ms() + 90_000
    returned = (await site.post("/acme/work/return", json={"leases": [late, lease(first)]})).json
    assert [row["status"] for row in returned["verdicts"]] == [409, 200]
    site.workers.wake()
    assert [job["payload"] for job in await take(site)] == ["1"], "no new job came of the late report"


async def test_whoever_holds_a_job_may_have_it_go_on_as_another_type(site: Site) -> None:
    await site.call("PUT", "/acme/handler/mail", json={"lang": "worker"})
    (job_id,) = await post(site, "1")
    (job,) = await take(site)
    late = {**lease(job), "token": job["token"] + 1, "type": "mail"}
    assert (await site.post("/acme/work/move", json=late)).status == 409
    moved = {**lease(job), "type": "mail", "delay_s": 60, "payload": "to bob"}
    assert (await site.post("/acme/work/move", json=moved)).status == 200
    assert (await site.post("/acme/work/move", json=moved)).status == 409, "the delivery is over"
    now = (await site.get(f"/acme/job/{job_id}")).json
    assert (now["type"], now["state"], now["payload"], now["attempts"]) == ("mail", "deferred", "to bob", 0)
    (verdict,) = (await report(site, {**lease(job), "outcome": "ok"}))["verdicts"]
    assert verdict["status"] == 409
    site.clock.advance(60)
    site.workers.wake()
    (again,) = (await site.post("/acme/work/take", json={"types": ["mail"]})).json["jobs"]
    assert (again["id"], again["payload"]) == (job_id, "to bob")
    unknown = {"id": "20270115T080000000Z-a7-0000ff", "token": 1, "type": "mail"}
    assert (await site.post("/acme/work/move", json=unknown)).status == 404


async def test_bytes_travel_in_base64(site: Site) -> None:
    raw = bytes(range(256))
    await site.call("PUT", "/acme/handler/resize", json={"lang": "worker"})
    await site.post("/acme/job/resize/add", json={"payload_base64": b64encode(raw).decode()})
    await site.intake.flush()
    (job,) = await take(site)
    assert (job["payload"], job["payload_encoding"]) == (b64encode(raw).decode(), "base64")
    made = [{"type": "resize", "payload_base64": b64encode(raw).decode()}, {"type": "mail", "payload": [1, 2]}]
    await report(site, {**lease(job), "outcome": "ok", "result_base64": b64encode(raw).decode(), "new_jobs": made})
    answer = await site.get(f"/acme/job/{job['id']}/result")
    assert answer.body == raw


async def test_a_running_job_shows_its_log_and_progress(site: Site) -> None:
    (job_id,) = await post(site, "1")
    (job,) = await take(site)
    answer = await report(site, {**lease(job), "log": "one\ntwo", "progress": {"page": 3}})
    assert answer["verdicts"][0]["lease_until_ms"] == job["lease_until_ms"]
    assert site.workers.glimpse("acme", job_id) == (b"one\ntwo\n", 8, b'{"page":3}', 1)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("take", {}, "types"),
        ("take", {"types": []}, "types"),
        ("take", {"types": ["x" * 128]}, "types[0]"),
        ("take", {"types": ["x"], "limit": 0}, "limit"),
        ("take", {"types": ["x"], "limit": 1001}, "limit"),
        ("take", {"types": ["x"], "wait_s": 61}, "wait_s"),
        ("take", {"types": ["x"], "lease_s": 0.5}, "lease_s"),
        ("take", {"types": ["x"], "worker": {"name": "a\u0000"}}, "worker.name"),
        ("take", {"types": ["x"], "tenant": "other"}, "tenant"),
        ("renew", {"leases": []}, "leases"),
        ("renew", {"leases": [{"id": "../x", "token": 1}]}, "leases[0].id"),
        ("renew", {"leases": [{"id": "x", "token": -1}]}, "leases[0].token"),
        ("renew", {"leases": [{"id": "x", "token": 1}] * 1001}, "leases"),
        ("report", {"reports": [{"id": "x", "token": 1, "outcome": "great"}]}, "reports[0].outcome"),
        ("report", {"reports": [{"id": "x", "token": 1, "exitcode": "200"}]}, "reports[0].exitcode"),
        ("report", {"reports": [{"token": 1, "exitcode": 200}]}, "reports[0].id"),
        ("return", {"goodbye": "x" * 101}, "goodbye"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_field(site: Site, path: str, body: Any, field: str) -> None:
    answer = await site.post(f"/acme/work/{path}", json=body)
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, field)


async def test_a_key_of_another_tenant_or_without_the_scope_gets_nothing(site: Site) -> None:
    await post(site, "1")
    (job,) = await take(site)
    for verb in ("take", "renew", "report", "return"):
        assert (await site.post(f"/acme/work/{verb}", key="other", json={})).status == 403
    _, key = await create_key(site.service, "test", "acme", scopes=("submit", "read", "manage", "handlers"))
    assert (await site.post("/acme/work/take", key=key, json={"types": ["*"]})).status == 403
    stolen = await site.post("/other/work/report", key="other", json={"reports": [{**lease(job), "outcome": "ok"}]})
    assert stolen.json["verdicts"][0]["answer"] == "unknown"
    assert (await site.get(f"/acme/job/{job['id']}")).json["state"] == "running"


async def test_new_jobs_past_a_limit_are_the_jobs_failure(site: Site) -> None:
    (job_id,) = await post(site, "1")
    (job,) = await take(site)
    made = [{"type": "resize", "payload": "x" * 9_000_000}, {"type": "resize", "payload": "y"}]
    answer = await report(site, {**lease(job), "outcome": "ok", "new_jobs": made})
    assert answer["verdicts"][0]["code"] == "failed"
    assert "more than" in (await site.get(f"/acme/job/{job_id}")).json["message"]


async def test_a_drained_worker_is_told_and_shown(site: Site) -> None:
    await post(site, "1", "2")
    (job,) = await take(site, limit=1, worker={"name": "old"})
    assert (await site.post("/acme/workers/drain", json={"worker": "old"})).status == 200
    answer = await site.post("/acme/work/take", json={"types": ["*"], "worker": {"name": "old"}})
    assert answer.json == {"jobs": [], "drain": True}
    (row,) = (await site.get("/acme/workers")).json["workers"]
    assert (row["name"], row["is_draining"], row["running"]) == ("old", True, 1)
    assert (await report(site, {**lease(job), "outcome": "ok"}))["verdicts"][0]["answer"] == "ok"
    assert [it["payload"] for it in await take(site, worker={"name": "new"})] == ["2"]
    site.clock.advance(3600)
    answer = await site.post("/acme/work/take", json={"types": ["*"], "worker": {"name": "old"}})
    assert answer.json == {"jobs": [], "drain": False}, "after an hour it may work again"
    actions = [row["action"] for row in (await site.get("/admin/audit", key="operator")).json["events"]]
    assert "worker.drain" in actions


async def test_the_page_of_workers(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        assert "No worker has asked" in (await acme.get("/ui/t/acme/workers")).text
        await post(site, "1", "2")
        about = {"name": "<u>&'\"", "host": "<b>box", "version": "<i>7", "capacity": 3}
        first, second = await take(site, worker=about, types=["<s>*", "re*"])
        page = (await acme.get("/ui/t/acme/workers")).text
        assert '2 of 3</td><td class="num wide">0</td>' in page
        await report(site, {**lease(first), "exitcode": 200}, {**lease(second), "progress": 50})
        page = (await acme.get("/ui/t/acme/workers")).text
        assert '1 of 3</td><td class="num wide">1</td>' in page, "one has ended, the other goes on"
        for text in ("&lt;u&gt;&amp;&#39;&#34;", "&lt;b&gt;box", "&lt;i&gt;7", "&lt;s&gt;* re*", "1 of 3"):
            assert text in page, text
        drained = await acme.post("/ui/t/acme/workers/drain", {"name": "<u>&'\""})
        assert drained.location == "/ui/t/acme/workers?note=drained"
        assert "draining" in (await acme.get("/ui/t/acme/workers")).text
        await acme.post("/ui/t/acme/workers/undrain", {"name": "<u>&'\""})
        assert "draining" not in (await acme.get("/ui/t/acme/workers")).text


# With a whole daemon


def ids(added: Added) -> list[str]:
    return added.ids if isinstance(added.ids, list) else []


async def serve(served: Served, *types: str) -> None:
    async with Client(served.url, served.key, "acme") as acme:
        for name in types:
            await acme.put_handler(name, "worker", "")


def waits(served: Served, count: int) -> Any:
    async def look() -> bool:
        return served.daemon.workers.gauges()["workers_waiting"] == count

    return look


async def test_a_waiting_request_is_answered_when_a_job_arrives(tmp_path: Path) -> None:
    async with served_daemon(tmp_path, poll="10m") as served, Client(served.url, served.key, "acme") as acme:
        await serve(served, "resize")
        waiting = asyncio.create_task(acme.take_jobs("res*", wait_s=60))
        await until(waits(served, 1))
        added = await acme.add_jobs("resize", ["1", "2"])
        (first,) = (await waiting).jobs
        assert first.id == ids(added)[0]
        ended_well = {"id": first.id, "token": first.token, "outcome": "ok", "result": "done"}
        reported = await acme.report_jobs([ended_well], take={"types": ["resize"], "wait_s": 60})
        assert ([it.answer for it in reported.verdicts], [it.payload for it in reported.jobs]) == (["ok"], ["2"])
        job = await acme.get_job(first.id)
        assert (job.state, job.code, job.result, job.isolation) == ("archived", "ok", "done", "external")


async def test_what_is_left_of_a_lease_is_told_from_when_the_job_is_handed_out(site: Site) -> None:
    """And not from when the worker began to wait."""
    await site.call("PUT", "/acme/handler/resize", json={"lang": "worker"})
    waiting = asyncio.create_task(take(site, wait_s=60, lease_s=5))

    async def waits() -> bool | None:
        return site.workers.gauges()["workers_waiting"] == 1 or None

    await until(waits)
    site.clock.advance(30.0)
    await site.add("1", path="/acme/job/resize/add")
    await site.intake.flush()
    site.workers.added(["acme-resize"])
    (job,) = await waiting
    assert job["lease_s"] == 5.0


async def test_a_closed_connection_frees_nothing_and_a_goodbye_all(tmp_path: Path) -> None:
    async with served_daemon(tmp_path) as served, Client(served.url, served.key, "acme") as acme:
        await serve(served, "resize")
        added = await acme.add_jobs("resize", ["1"])
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {served.key}"}) as session:
            body = {"types": ["resize"], "wait_s": 30, "worker": {"name": "a"}}
            async with session.post(f"{served.url}/acme/work/take", json=body) as answer:
                (job,) = (await answer.json())["jobs"]
        assert (await acme.get_job(job["id"])).state == "running"
        assert (await acme.take_jobs("resize")).jobs == [], "its lease holds"
        waiting = asyncio.create_task(acme.take_jobs("resize", wait_s=60))
        await until(waits(served, 1))
        assert [it.answer for it in (await acme.return_jobs(goodbye="a")).verdicts] == ["ok"]
        (again,) = (await waiting).jobs
        assert (again.id, again.attempts) == (ids(added)[0], 1)


async def test_a_client_that_left_while_it_waited_is_passed_over(tmp_path: Path) -> None:
    async with served_daemon(tmp_path) as served, Client(served.url, served.key, "acme") as acme:
        await serve(served, "resize")
        reader, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
        body = json.dumps({"types": ["resize"], "wait_s": 60, "lease_s": 3600}).encode()
        head = f"POST /acme/work/take HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.key}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        await until(waits(served, 1))
        second = asyncio.create_task(acme.take_jobs("resize", wait_s=60))
        await until(waits(served, 2))
        writer.transport.abort()
        await until(waits(served, 1))
        await acme.add_jobs("resize", ["1"])
        (job,) = (await second).jobs
        assert (job.payload, job.attempts) == ("1", 1)
        assert await reader.read() == b""


async def test_tenants_take_only_their_own_and_a_flood_of_one_leaves_the_other_alone(tmp_path: Path) -> None:
    async with served_daemon(tmp_path) as served, Client(served.url, served.key, "acme") as acme:
        await create_tenant(served.service, "test", "other", 1, TenantLimits())
        _, key = await create_key(served.service, "test", "other")
        async with Client(served.url, key, "other") as other:
            await serve(served, "resize")
            await other.put_handler("resize", "worker", "")
            await acme.add_jobs("resize", [str(number) for number in range(500)])
            added = await other.add_jobs("resize", ["mine"])
            floods = [asyncio.create_task(acme.take_jobs("*", limit=100, wait_s=30)) for _ in range(5)]
            (job,) = (await other.take_jobs("*", limit=100, wait_s=30)).jobs
            assert (job.id, job.payload) == (ids(added)[0], "mine")
            verdicts = (await other.report_jobs([{"id": job.id, "token": job.token, "outcome": "ok"}])).verdicts
            assert verdicts[0].answer == "ok"
            outcome = (await ended(served.daemon, job.id, "other")).outcome
            assert outcome
            assert outcome.code is Code.OK
            taken = [job for flood in await asyncio.gather(*floods) for job in flood.jobs]
            assert len({job.id for job in taken}) == len(taken)


async def test_a_suspended_tenant_takes_nothing(tmp_path: Path) -> None:
    async with served_daemon(tmp_path) as served, Client(served.url, served.key, "acme") as acme:
        await serve(served, "resize")
        await served.service.store.update_tenant("acme", suspended=True)
        await served.daemon.tenants_changed()
        served.service.verified_keys.forget()
        with pytest.raises(ClientError, match="suspended"):
            await acme.take_jobs("resize")

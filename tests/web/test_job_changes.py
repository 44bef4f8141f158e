"""Changing jobs that are there: update, retry at a time and with a payload, delete; and ways to say a time."""

import io
from typing import Any

import pytest

from functory.operations.keys import create_key
from store.base import Archive, Code, Outcome
from tests.support.web import SYSID, T0, Site

ADD = "/acme/job/thumb/add"


async def read(site: Site, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await site.get(f"/acme/job/{job_id}")).json
    return found


async def start(site: Site) -> Any:
    await site.intake.flush()
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=site.clock.now_ms())
    return job


async def finish(site: Site, job: Any, code: Code = Code.OK) -> None:
    outcome = Outcome(code, 200 if code is Code.OK else 400, T0)
    await site.store.release_jobs(SYSID, [Archive(job.id, job.token, outcome)], now_ms=site.clock.now_ms())


async def test_the_payload_of_a_job_that_has_not_started_can_be_replaced(site: Site) -> None:
    (job_id,) = await site.add("x", path=ADD + "?delay_s=5")
    assert (await site.call("PATCH", f"/acme/job/{job_id}", json={"payload": {"a": 1}})).json == {"ok": True}
    job = await read(site, job_id)
    assert (job["payload"], job["state"], job["due_ms"]) == ('{"a":1}', "deferred", T0 + 5000)
    assert (await site.call("PATCH", f"/acme/job/{job_id}", json={"payload_base64": "/wA="})).status == 200
    assert (await read(site, job_id))["payload_encoding"] == "base64"


async def test_what_others_would_want_to_know_of_is_in_the_audit_log(site: Site) -> None:
    await site.call("PUT", "/acme/rate/shop", json={"rate_per_s": 1, "burst": 2})
    await site.call("DELETE", "/acme/rate/shop")
    assert (await site.call("DELETE", "/acme/rate/shop")).status == 404
    (job_id,) = await site.add("x", path=ADD + "?delay_s=5")
    await site.call("PATCH", f"/acme/job/{job_id}", json={"payload": "secret"})
    for said in ({"payload": "other", "delay_s": 5}, {"delay_s": 6}):
        assert (await site.post(f"/acme/job/{job_id}/retry", json=said)).status == 200
    assert (await site.post(f"/acme/job/{job_id}/cancel")).status == 200
    page = await site.get("/admin/audit?tenant=acme", key="operator")
    events = [(row["action"], row["detail"]) for row in page.json["events"]][:4][::-1]
    assert [action for action, _ in events] == ["rate.set", "rate.delete", "job.update", "job.update"]
    assert "secret" not in str(events)
    assert job_id in str(events[-1])


async def test_a_job_that_runs_or_has_ended_is_not_updated(site: Site) -> None:
    (job_id,) = await site.add("x")
    job = await start(site)
    answer = await site.call("PATCH", f"/acme/job/{job_id}", json={"payload": "y"})
    assert (answer.status, answer.code) == (409, "conflict")
    await finish(site, job)
    assert (await site.call("PATCH", f"/acme/job/{job_id}", json={"payload": "y"})).code == "conflict"
    assert (await read(site, job_id))["payload"] == "x"


@pytest.mark.parametrize(
    "body", [{}, {"payload": "x", "payload_base64": "eA=="}, {"payload_base64": "%"}, {"data": "x"}]
)
async def test_an_update_needs_one_payload(site: Site, body: dict[str, str]) -> None:
    (job_id,) = await site.add("x")
    assert (await site.call("PATCH", f"/acme/job/{job_id}", json=body)).status == 422


@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/retry")])
async def test_a_new_payload_is_held_against_the_same_limits(site: Site, method: str, path: str) -> None:
    (job_id,) = await site.add("x", path=ADD + "?delay_s=9")
    big = io.BytesIO(b'{"payload": "%s"}' % (b"y" * 1_100_000))
    answer = await site.call(method, f"/acme/job/{job_id}{path}", data=big)
    assert (answer.status, answer.code) == (413, "limit_exceeded")
    limits = {"limits": {"max_bytes": 9}}
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json=limits)
    answer = await site.call(method, f"/acme/job/{job_id}{path}", json={"payload": "y" * 10})
    assert (answer.status, answer.code) == (429, "quota_exceeded")
    assert (await read(site, job_id))["payload"] == "x"


@pytest.mark.parametrize(
    ("body", "due_ms", "payload"),
    [
        ({}, T0, "x"),
        ({"delay_s": 60, "payload": "other"}, T0 + 60_000, "other"),
        ({"next_run": str(T0 + 7000)}, T0 + 7000, "x"),
        ({"next_run": T0 + 7000}, T0 + 7000, "x"),
        ({"next_run": "2035-01-31"}, 2_053_814_400_000, "x"),
        ({"next_run": "2035-01-31 04:05:06"}, 2_053_829_106_000, "x"),
        ({"next_run": "2035-01-31T04:05:06+01:00"}, 2_053_825_506_000, "x"),
    ],
)
async def test_a_job_is_retried_at_a_time_and_with_a_payload(
    site: Site, body: dict[str, Any], due_ms: int, payload: str
) -> None:
    (job_id,) = await site.add("x")
    await site.run(code=Code.FAILED)
    assert (await site.post(f"/acme/job/{job_id}/retry", json=body)).status == 200
    job = await read(site, job_id)
    assert (job["due_ms"], job["payload"], job["attempts"]) == (due_ms, payload, 0)


async def test_a_deferred_job_runs_now_when_it_is_retried(site: Site) -> None:
    (job_id,) = await site.add("x", path=ADD + "?delay_s=3600")
    wakes = site.control.wakes
    assert (await site.post(f"/acme/job/{job_id}/retry", json={"payload": "new"})).status == 200
    job = await read(site, job_id)
    assert (job["state"], job["due_ms"], job["payload"]) == ("waiting", T0, "new")
    assert site.control.wakes > wakes
    await start(site)
    assert (await site.post(f"/acme/job/{job_id}/retry")).code == "conflict", "it is running"


@pytest.mark.parametrize(
    "body",
    [
        {"delay_s": 1, "next_run": "2035-01-31"},
        {"next_run": "2035-02-31"},
        {"next_run": "31.01.2035"},
        {"next_run": False},
        {"next_run": 1.5},
        {"next_run": -1},
    ],
)
async def test_a_time_that_is_none_is_refused(site: Site, body: dict[str, Any]) -> None:
    (job_id,) = await site.add("x")
    await site.run()
    answer = await site.post(f"/acme/job/{job_id}/retry", json=body)
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "next_run")
    assert (await read(site, job_id))["state"] == "archived"


async def test_delete_removes_all_trace_of_a_job_in_any_state_but_running(site: Site) -> None:
    waiting, deferred = *await site.add("w"), *await site.add("d", path=ADD + "?delay_s=9")
    for job_id in (waiting, deferred):
        assert (await site.call("DELETE", f"/acme/job/{job_id}")).json == {"deleted": 1}
        assert (await site.get(f"/acme/job/{job_id}")).status == 404
        assert (await site.call("DELETE", f"/acme/job/{job_id}")).status == 404
    (job_id,) = await site.add("x")
    job = await start(site)
    assert (await site.call("DELETE", f"/acme/job/{job_id}")).code == "conflict"
    assert (await read(site, job_id))["state"] == "running"
    await finish(site, job)
    assert (await site.call("DELETE", f"/acme/job/{job_id}")).json == {"deleted": 1}
    assert (await site.store.get_usage("acme")).jobs == 0
    events = (await site.store.list_audit(tenant="acme")).events
    assert [event.action for event in events].count("job.delete") == 3


async def test_a_running_job_is_not_deleted_and_the_refusal_says_what_to_do(site: Site) -> None:
    (job_id,) = await site.add("x")
    await start(site)
    answer = await site.call("DELETE", f"/acme/job/{job_id}")
    text = f"job {job_id} is running: cancel it, or wait until it has ended"
    assert (answer.status, answer.json["error"]["message"]) == (409, text)
    for _ in range(2):
        assert (await site.post(f"/acme/job/{job_id}/cancel")).status == 200, "again, it changes nothing"
    assert (await site.call("DELETE", f"/acme/job/{job_id}")).status == 200


async def test_children_that_never_ran_are_deleted_with_their_parent(site: Site) -> None:
    (parent,) = await site.add("p")
    job = await start(site)
    children = await site.add("a", "b", "c", path=f"/acme/job/child/add?parent={parent}")
    await finish(site, job)
    (ran,) = await site.store.claim_jobs("acme-child", 1, owner=SYSID, lease_ms=9000, now_ms=T0)
    await finish(site, ran)
    assert (await site.call("DELETE", f"/acme/job/{parent}")).json == {"deleted": 3}
    states = await site.store.get_states("acme", [parent, *children], now_ms=T0)
    assert list(states) == [ran.id]


@pytest.mark.parametrize("verb", [("PATCH", "", {"payload": "y"}), ("DELETE", "", None), ("POST", "/retry", {})])
async def test_who_may_not(site: Site, verb: tuple[str, str, Any]) -> None:
    method, path, body = verb
    (job_id,) = await site.add("x")
    foreign = await site.call(method, f"/other/job/{job_id}{path}", key="other", json=body)
    assert (foreign.status, foreign.code) == (404, "missing")
    assert (await read(site, job_id))["payload"] == "x"
    for unknown in ("nope", "20261114T235959123Z-a7-00001f"):
        assert (await site.call(method, f"/acme/job/{unknown}{path}", json=body)).code == "missing"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("+10 MINUTES", 600), ("+1 hour, -10 minutes", 3000), ("+1 DAY, START OF DAY", None), ("+2 seconds", 2)],
)
async def test_retry_after_as_modifiers(site: Site, text: str, seconds: int | None) -> None:
    answer = await site.post(ADD, json={"payload": "x", "retry_after": text})
    assert answer.status == 200, answer.body
    job = await read(site, answer.json["ids"][0])
    if seconds is not None:
        assert job["retry_after_s"] == seconds
    assert 0 < job["retry_after_s"] <= 86_400


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"retry_after": "+1 HOUR", "repeat": "HOURLY"}, "retry_after"),
        ({"retry_after": "+1 HOUR", "unique": "u"}, "retry_after"),
        ({"retry_after_s": 60, "repeat": "HOURLY"}, "retry_after_s"),
        ({"retry_after_s": 60, "unique": "u"}, "retry_after_s"),
        ({"retry_after_s": 60, "retry_after": "+1 HOUR"}, "retry_after"),
        ({"retry_after": "-1 HOUR"}, "retry_after"),
        ({"retry_after": "+2 YEARS"}, "retry_after"),
        ({"retry_after": "soon"}, "retry_after"),
    ],
)
async def test_a_retry_after_that_is_refused(site: Site, fields: dict[str, Any], field: str) -> None:
    answer = await site.post(ADD, json={"payload": "x", **fields})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, field)


@pytest.mark.parametrize(
    ("text", "due_ms"), [("2035-01-31", 2_053_814_400_000), ("2035-01-31 04:05:06", 2_053_829_106_000)]
)
async def test_a_first_run_as_in_sqlite(site: Site, text: str, due_ms: int) -> None:
    answer = await site.post(ADD, json={"payload": "x", "dt": text})
    assert (await read(site, answer.json["ids"][0]))["due_ms"] == due_ms
    (job_id,) = await site.add("y", path=f"{ADD}?dt={text.replace(' ', '%20')}")
    assert (await read(site, job_id))["due_ms"] == due_ms


async def test_who_moves_a_job_to_another_type_may_submit(site: Site) -> None:
    _, key = await create_key(site.service, "test", "acme", scopes=("read", "manage"))
    (job_id,) = await site.add("x")
    await site.run(code=Code.FAILED)
    path = f"/acme/job/{job_id}/retry"
    answer = await site.post(path, key=key, json={"type": "mail", "payload": "y"})
    assert (answer.status, answer.json["error"]["detail"]) == (403, {"scope": "submit"})
    job = await read(site, job_id)
    assert (job["type"], job["state"], job["payload"]) == ("thumb", "archived", "x")
    assert (await site.post(path, key=key, json={"type": "thumb", "payload": "y"})).status == 200, "it stays what it is"


async def test_a_retry_moves_a_job_to_another_type(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.run(code=Code.FAILED)
    answer = await site.post(f"/acme/job/{job_id}/retry", json={"type": "mail", "payload": "y", "delay_s": 60})
    assert answer.status == 200
    job = (await site.get(f"/acme/job/{job_id}")).json
    assert (job["type"], job["state"], job["payload"]) == ("mail", "deferred", "y")
    assert (await site.post(f"/acme/job/{job_id}/retry", json={"type": "other"})).status == 200
    assert (await site.get(f"/acme/job/{job_id}")).json["type"] == "other"
    assert (await site.post(f"/acme/job/{job_id}/retry", json={"type": "a|b"})).status == 422
    assert (await site.post(f"/acme/job/{job_id}/retry", json={"type": "third"})).status == 409, "it waits"
    (named,) = await site.add("x", path="/acme/job/thumb/add?unique=u&delay_s=60")
    refused = await site.post(f"/acme/job/{named}/retry", json={"type": "mail"})
    assert (refused.status, refused.code) == (409, "conflict")

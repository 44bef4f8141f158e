"""Looking at jobs and acting on them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functory.operations.service import OperationSettings
from store.base import Code, Outcome, Rearm, Retry
from store.errors import StoreUnavailable
from tests.support.jobs import new_job
from tests.support.web import SYSID, T0, Site, open_site
from vocabulary.time_text import iso_time

ADD = "/acme/job/thumb/add"


async def test_a_job_is_there_from_the_moment_its_post_is_answered(site: Site) -> None:
    (job_id,) = await site.add("x")
    answer = await site.get(f"/acme/job/{job_id}")
    assert answer.status == 200
    job = answer.json
    assert (job["id"], job["type"], job["state"], job["payload"]) == (job_id, "thumb", "waiting", "x")
    assert (job["created_ms"], job["due_ms"], job["attempts"], job["code"]) == (T0, T0, 0, None)


async def test_while_the_store_is_away_an_accepted_job_is_queued(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (job_id,) = await site.add("x", path=ADD + "?priority=1000&delay_s=5")

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no answer from /secret/path")

    monkeypatch.setattr(site.store, "get_job", away)
    job = (await site.get(f"/acme/job/{job_id}")).json
    assert (job["state"], job["priority"], job["due_ms"]) == ("queued", 1000, T0 + 5000)
    assert (await site.get(f"/acme/job/{job_id}/why")).json["reason"] == "queued"
    site.control.held_by = "tenant_cap"
    why = (await site.get(f"/acme/job/{job_id}/why")).json
    assert (why["state"], why["reason"]) == ("queued", "tenant_cap")
    assert "as many batches on this daemon as its limit allows" in why["text"]
    foreign = await site.get(f"/other/job/{job_id}", key="other")
    assert (foreign.status, foreign.code) == (503, "store_unavailable")
    assert b"secret" not in foreign.body


async def test_a_job_says_since_when_it_runs(site: Site) -> None:
    first, second = await site.add("x", "y")
    await site.intake.flush()
    site.clock.advance(3)
    await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=T0 + 3000)
    listed = (await site.get("/acme/results?state=running,waiting")).json["jobs"]
    for jobs in ([(await site.get(f"/acme/job/{job_id}")).json for job_id in (first, second)], listed):
        assert {job["id"]: job["claimed_ms"] for job in jobs} == {first: T0 + 3000, second: None}
    why = (await site.get(f"/acme/job/{first}/why")).json
    assert why["text"] == f"it has been running on daemon {SYSID} since {iso_time(T0 + 3000)}"
    await site.post(f"/acme/job/{first}/cancel")
    assert (await site.get(f"/acme/job/{first}")).json["claimed_ms"] is None


async def test_a_store_that_lags_is_waited_for_and_then_the_job_is_queued(tmp_path: Path) -> None:
    async with open_site(tmp_path, operations=OperationSettings(flush_timeout_s=0.05)) as site:
        (job_id,) = await site.add("x")
        site.intake.gate = asyncio.Event()
        assert (await site.get(f"/acme/job/{job_id}")).json["state"] == "queued"
        unknown = f"{job_id[:-6]}ffffff"
        answer = await site.get(f"/acme/job/{unknown}")
        assert (answer.status, answer.code) == (503, "not_ready_yet"), "it cannot tell, and does not guess"
        assert answer.headers["Retry-After"] == "1"
        answer = await site.post(f"/acme/job/{job_id}/cancel")
        assert (answer.status, answer.code) == (503, "not_ready_yet")


@pytest.mark.parametrize("job_id", ["nope", "20261114T235959123Z-a7-00001f", "..%2f..%2fetc", "a" * 500, "20261114"])
async def test_an_unknown_id_is_404(site: Site, job_id: str) -> None:
    for method, path in [("GET", ""), ("GET", "/why"), ("GET", "/result"), ("POST", "/cancel"), ("POST", "/retry")]:
        answer = await site.call(method, f"/acme/job/{job_id}{path}")
        assert (answer.status, answer.code) == (404, "missing"), (method, path, answer.body)


async def test_the_outcome_is_shown_and_the_result_can_be_had_raw(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.run(result=b"\xff\x00", log=b"caf\xc3\xa9")
    job = (await site.get(f"/acme/job/{job_id}")).json
    assert (job["state"], job["code"], job["exitcode"], job["attempts"]) == ("archived", "ok", 200, 1)
    assert (job["result"], job["result_encoding"], job["result_bytes"]) == ("/wA=", "base64", 2)
    assert (job["log"], job["log_encoding"]) == ("café", "text")
    assert (job["isolation"], job["handler_version"], job["duration_us"]) == ("L2", 1, 1500)
    raw = await site.get(f"/acme/job/{job_id}/result")
    assert (raw.body, raw.headers["Content-Type"]) == (b"\xff\x00", "application/octet-stream")
    assert raw.headers["Content-Disposition"] == "attachment"


async def test_wait_answers_when_the_job_ends(site: Site) -> None:
    (job_id,) = await site.add("x")
    waiting = asyncio.ensure_future(site.get(f"/acme/job/{job_id}?wait_s=30"))
    await site.waiters.waiting.wait()
    await site.run()
    site.waiters.tell(job_id)
    assert (await waiting).json["code"] == "ok"


async def test_wait_looks_again_after_a_false_alarm_and_ends_with_its_time(site: Site) -> None:
    (job_id,) = await site.add("x")
    site.waiters.tell(job_id)
    answer = await site.get(f"/acme/job/{job_id}?wait_s=0.05")
    assert (answer.status, answer.json["state"]) == (200, "waiting")
    await site.run()
    assert (await site.get(f"/acme/job/{job_id}?wait_s=30")).json["code"] == "ok", "it had ended before"


@pytest.mark.parametrize("wait", ["-1", "61", "x", "nan"])
async def test_wait_is_bounded(site: Site, wait: str) -> None:
    assert (await site.get(f"/acme/job/x?wait_s={wait}")).status == 422


async def test_cancel_what_has_not_ended(site: Site) -> None:
    (job_id,) = await site.add("x")
    assert (await site.post(f"/acme/job/{job_id}/cancel")).json == {"ok": True}
    assert (await site.get(f"/acme/job/{job_id}")).json["code"] == "cancelled"
    assert (await site.post(f"/acme/job/{job_id}/cancel")).status == 200, "again changes nothing"
    (done,) = await site.add("y")
    await site.run()
    assert (await site.post(f"/acme/job/{done}/cancel")).code == "conflict"


async def test_retry_only_what_has_ended(site: Site) -> None:
    (job_id,) = await site.add("x")
    answer = await site.post(f"/acme/job/{job_id}/retry")
    assert (answer.status, answer.code) == (409, "conflict")
    await site.run(code=Code.FAILED)
    assert (await site.post(f"/acme/job/{job_id}/retry", json={"delay_s": 60})).status == 200
    job = (await site.get(f"/acme/job/{job_id}")).json
    assert (job["state"], job["due_ms"], job["attempts"]) == ("deferred", T0 + 60_000, 0)


async def retried(site: Site, payload: str = "x") -> str:
    """A job whose first attempt ended with an error; the next is a minute away."""
    (job_id,) = await site.add(payload)
    await site.intake.flush("acme")
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=T0)
    outcome = Outcome(Code.ERROR, 500, T0, 1500, b"Traceback: KeyError: 'x'", b"said", 3, message="KeyError: 'x'")
    await site.store.release_jobs(SYSID, [Retry(job.id, job.token, T0 + 60_000, outcome)], now_ms=T0)
    return job_id


async def test_a_job_that_is_tried_again_shows_its_error_and_its_attempts(site: Site) -> None:
    job_id = await retried(site)
    job = (await site.get(f"/acme/job/{job_id}")).json
    assert (job["state"], job["code"], job["result"], job["log"]) == (
        "deferred",
        "error",
        "Traceback: KeyError: 'x'",
        "said",
    )
    assert job["history"] == [
        {
            "number": 1,
            "started_ms": T0,
            "duration_us": 1500,
            "code": "error",
            "exitcode": 500,
            "message": "KeyError: 'x'",
            "handler_version": 3,
            "daemon": SYSID,
        }
    ]
    assert (await site.get(f"/acme/job/{job_id}/result")).status == 404, "it has no result yet"
    why = (await site.get(f"/acme/job/{job_id}/why")).json
    assert "KeyError: 'x'" in why["text"]
    assert (why["detail"]["message"], why["detail"]["attempts"]) == ("KeyError: 'x'", 1)
    listed = (await site.get("/acme/results?state=deferred")).json["jobs"]
    assert (listed[0]["history"], listed[0]["message"]) == ([], "KeyError: 'x'")


async def test_a_deferred_job_can_be_run_now(site: Site) -> None:
    job_id = await retried(site)
    assert (await site.post(f"/acme/job/{job_id}/retry")).status == 200
    job = (await site.get(f"/acme/job/{job_id}")).json
    assert (job["state"], job["due_ms"], job["attempts"]) == ("waiting", T0, 1)
    assert len(job["history"]) == 1
    assert site.control.wakes > 0


async def test_a_cancelled_job_keeps_its_log(site: Site) -> None:
    job_id = await retried(site)
    assert (await site.post(f"/acme/job/{job_id}/cancel")).status == 200
    job = (await site.get(f"/acme/job/{job_id}")).json
    assert (job["code"], job["log"], job["result"]) == ("cancelled", "said", "Traceback: KeyError: 'x'")


async def test_results_by_filter_and_page(site: Site) -> None:
    ids = await site.add(*map(str, range(5)))
    for code in (Code.OK, Code.FAILED, Code.OK):
        await site.run(1, code)
        site.clock.advance(1)
    await site.add("other type", path="/acme/job/mail/add")
    page = (await site.get("/acme/results?limit=2")).json
    rest = (await site.get(f"/acme/results?limit=2&cursor={page['cursor']}")).json
    assert [job["id"] for job in page["jobs"] + rest["jobs"]] == ids[2::-1]
    assert rest["cursor"] is None
    assert "payload" not in page["jobs"][0] or page["jobs"][0]["payload"] is None
    failed = (await site.get("/acme/results?code=failed,abandoned&type=thumb")).json
    assert [job["id"] for job in failed["jobs"]] == [ids[1]]
    since = (await site.get(f"/acme/results?since_ms={T0 + 1000}&until_ms={T0 + 2000}")).json
    assert [job["id"] for job in since["jobs"]] == [ids[1]]
    await site.intake.flush()
    waiting = (await site.get("/acme/results?state=waiting&type=thumb")).json
    assert [job["id"] for job in waiting["jobs"]] == ids[3:]


@pytest.mark.parametrize(
    "query", ["cursor=x", "cursor=%00", "limit=0", "limit=1001", "code=bad", "state=gone", "type=a%7Cb", "since_ms=-1"]
)
async def test_a_bad_filter_is_422(site: Site, query: str) -> None:
    assert (await site.get(f"/acme/results?{query}")).status == 422


async def test_replay_by_filter_with_dry_run_and_rate(site: Site) -> None:
    ids = await site.add(*map(str, range(5)))
    await site.run(4, Code.FAILED)
    await site.run(1, Code.OK)
    dry = (await site.post("/acme/replay", json={"dry_run": True})).json
    assert (dry["matched"], dry["replayed"]) == (4, 0)
    assert sorted(dry["ids"]) == ids[:4]
    some = (await site.post("/acme/replay", json={"limit": 1})).json
    assert (some["matched"], some["replayed"], some["more"]) == (1, 1, True)
    rest = (await site.post("/acme/replay", json={"rate_per_s": 0.5})).json
    assert (rest["replayed"], rest["more"], rest["last_due_ms"]) == (3, False, T0 + 4000)
    assert (await site.post("/acme/replay", json={})).json["matched"] == 0, "nothing is replayed twice"
    (row,) = await site.store.get_counters("acme", now_ms=T0)
    assert (row.waiting, row.deferred) == (2, 2)
    foreign = await site.post("/other/replay", key="other", json={"codes": ["ok"]})
    assert foreign.json["matched"] == 0


async def test_scoreboard_time_line_and_failures(site: Site) -> None:
    await site.add(*map(str, range(4)))
    await site.run(2)
    await site.run(1, Code.FAILED, fingerprint="f1", message="ValueError: no")
    await site.call("PUT", "/acme/handler/idle?lang=sh", data=b"true")
    board = (await site.get("/acme/scoreboard")).json
    idle, thumb = board["types"]
    assert (idle["type"], idle["has_handler"], idle["waiting"]) == ("idle", True, 0)
    assert (thumb["waiting"], thumb["ok"], thumb["failed"], thumb["has_handler"]) == (1, 2, 1, False)
    assert thumb["duration"]["p50_ms"] == pytest.approx(1.5, rel=0.15)
    assert thumb["failed_share"] == pytest.approx(1 / 3)
    assert board["usage"]["jobs"] == 4
    (bucket,) = (await site.get("/acme/timeline?width=minute&count=5")).json["buckets"]
    assert (bucket["type"], bucket["ok"], bucket["failed"]) == ("thumb", 2, 1)
    (group,) = (await site.get("/acme/failures")).json["failures"]
    assert (group["type"], group["message"], group["runs"]) == ("thumb", "ValueError: no", 1)
    assert (await site.get("/other/scoreboard", key="other")).json["types"] == []


async def test_index_rates_and_pauses(site: Site) -> None:
    await site.add("a", "b", path=ADD + "?indexed=true")
    await site.intake.flush()
    assert (await site.get("/acme/index/thumb")).json == {"head": 2, "processed": 0, "blocked_by": None}
    assert (await site.call("PUT", "/acme/rate/api", json={"rate_per_s": 2, "burst": 5})).status == 200
    (rate,) = (await site.get("/acme/rate")).json["domains"]
    assert (rate["domain"], rate["rate_per_s"], rate["burst"], rate["tokens"]) == ("api", 2, 5, 5)
    assert (await site.call("PUT", "/acme/rate/api", json={"rate_per_s": 0})).status == 422
    assert (await site.call("DELETE", "/acme/rate/api")).status == 200
    assert (await site.call("DELETE", "/acme/rate/api")).status == 404
    wakes = site.control.wakes
    assert (await site.post("/acme/type/thumb/pause")).status == 200
    (row,) = (await site.get("/acme/scoreboard")).json["types"]
    assert row["paused"] is True
    assert (await site.post("/acme/type/thumb/resume")).status == 200
    assert site.control.wakes > wakes


def id_of(time_ms: int, sysid: str) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}{time_ms % 1000:03d}Z-{sysid}-000001"


async def test_a_young_job_of_another_living_daemon_is_not_denied(site: Site) -> None:
    """Its POST was answered by that daemon, and its line may not be in the store yet."""
    other = await site.store.reserve_sysid(info="{}", lease_ms=60_000, now_ms=T0)
    young, old = (id_of(T0 - age_ms, other.sysid) for age_ms in (100, 3_600_000))
    unknown = id_of(T0 - 100, "zz")
    answer = await site.get(f"/acme/job/{young}")
    assert (answer.status, answer.json["error"]["code"]) == (503, "not_ready_yet")
    assert [(await site.get(f"/acme/job/{job_id}")).status for job_id in (old, unknown)] == [404, 404]
    await site.store.add_jobs([new_job(0, id=young)], now_ms=T0)
    assert (await site.get(f"/acme/job/{young}")).status == 200


async def test_the_result_of_the_last_round_is_there_between_rounds(site: Site) -> None:
    (job_id,) = await site.add("x", path=ADD + "?repeat=FINISHED,%20%2B1%20HOUR")
    await site.intake.flush()
    assert (await site.get(f"/acme/job/{job_id}/result")).status == 404
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=30_000, now_ms=T0)
    outcome = Outcome(Code.OK, 200, T0, 1500, b"first round", b"", 3, "L2")
    await site.store.release_jobs(SYSID, [Rearm(job.id, job.token, T0, outcome)], now_ms=T0)
    raw = await site.get(f"/acme/job/{job_id}/result")
    assert (raw.status, raw.body) == (200, b"first round")
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=30_000, now_ms=T0)
    outcome = outcome._replace(code=Code.ERROR, exitcode=500)
    await site.store.release_jobs(SYSID, [Retry(job.id, job.token, T0, outcome)], now_ms=T0)
    assert (await site.get(f"/acme/job/{job_id}/result")).status == 404, "an attempt is no round"

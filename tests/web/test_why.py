"""What stands between a job and its run, as `why` says it."""

import pytest

from store.base import Archive, Code, Outcome, RateDomain, Retry
from tests.support.web import SYSID, T0, Site

ADD = "/acme/job/thumb/add"


async def reason(site: Site, job_id: str) -> str:
    answer = await site.get(f"/acme/job/{job_id}/why")
    assert answer.status == 200, answer.body
    assert answer.json["text"]
    found: str = answer.json["reason"]
    return found


async def test_why_says_which_job_of_its_key_a_job_waits_for(site: Site) -> None:
    handler = {"lang": "python", "body": "return 1", "options": {"max_per_key": 1}}
    assert (await site.call("PUT", "/acme/handler/thumb", json=handler)).status < 300
    await site.store.reserve_sysid(info='{"languages": ["python"]}', lease_ms=60_000, now_ms=T0)
    first, second = await site.add("x", "y", path=ADD + "?key=ada")
    (other,) = await site.add("z", path=ADD + "?key=bob")
    assert await reason(site, second) == "in_line"
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=T0, max_per_key=1)
    assert job.id == first
    for again in (False, True):
        answer = (await site.get(f"/acme/job/{second}/why")).json
        assert (answer["reason"], answer["detail"]["job"]) == ("waits_for_key", first), again
        assert answer["text"] == f"it waits for another job of its key ada: {first}"
        assert await reason(site, other) == "in_line"
        if not again:
            outcome = Outcome(Code.RETRY, 100, T0)
            await site.store.release_jobs(SYSID, [Retry(job.id, job.token, T0 + 5000, outcome)], now_ms=T0)


@pytest.mark.parametrize("options", [{"max_per_key": 1}, {"max_per_key": 3}, {}])
async def test_why_names_the_job_of_its_key_that_has_no_token(site: Site, options: dict[str, int]) -> None:
    handler = {"lang": "python", "body": "return 1", "options": options}
    assert (await site.call("PUT", "/acme/handler/thumb", json=handler)).status < 300
    await site.store.reserve_sysid(info='{"languages": ["python"]}', lease_ms=60_000, now_ms=T0)
    (taken,) = await site.add("w", path=ADD + "?key=ada&domain=api")
    (first,) = await site.add("x", path=ADD + "?key=ada&domain=api")
    (second,) = await site.add("y", path=ADD + "?key=ada")
    await site.store.set_rate_domain(RateDomain("acme", "api", 0.01, 1), now_ms=T0)
    assert await reason(site, second) == "in_line"
    (job,) = await site.store.claim_jobs("acme-thumb", 9, owner=SYSID, lease_ms=9000, now_ms=T0)
    assert job.id == taken
    await site.store.release_jobs(SYSID, [Archive(job.id, job.token, Outcome(Code.OK, 200, T0))], now_ms=T0)
    assert await reason(site, first) == "rate_domain"
    answer = (await site.get(f"/acme/job/{second}/why")).json
    assert (answer["reason"], answer["detail"]["job"]) == ("waits_for_key", first)
    assert answer["text"] == f"it waits for another job of its key ada: {first}, whose rate domain api has no token"


async def test_why_counts_only_jobs_that_could_run(site: Site) -> None:
    for name, lang in (("thumb", "python"), ("paused", "python"), ("resize", "worker")):
        await site.call("PUT", f"/acme/handler/{name}?lang={lang}", data=b"return 1")
    await site.store.reserve_sysid(info='{"languages": ["python"]}', lease_ms=60_000, now_ms=T0)
    for name, count in (("paused", 3), ("nobody", 25)):
        await site.add(*map(str, range(count)), path=f"/acme/job/{name}/add")
    _, second = await site.add("x", "y")
    *_, sized = await site.add("x", "y", "z", path="/acme/job/resize/add")
    await site.intake.flush()
    assert (await site.post("/acme/type/paused/pause")).status == 200
    answer = (await site.get(f"/acme/job/{second}/why")).json
    assert answer["text"] == "1 jobs of its type are before it; 2 of the tenant's jobs wait for a free runner"
    await site.post("/acme/work/take", json={"types": ["resize"], "worker": {"name": "w"}})
    answer = (await site.get(f"/acme/job/{sized}/why")).json
    assert answer["text"] == "1 jobs of its type are before it; 2 of the tenant's jobs wait for a worker"


async def test_why_names_the_first_thing_in_the_way(site: Site) -> None:
    store = site.store
    assert await reason(site, (await site.add("x", path=ADD + "?delay_s=9"))[0]) == "deferred"
    (first, second) = await site.add("x", "y", path=ADD + "?domain=api")
    assert await reason(site, second) == "no_handler"
    await site.call("PUT", "/acme/handler/thumb?lang=python", data=b"return 1")
    assert await reason(site, second) == "no_daemon"
    other = await store.reserve_sysid(info='{"languages": ["node"]}', lease_ms=60_000, now_ms=T0)
    assert await reason(site, second) == "no_runner"
    unable = '{"languages": ["node"], "unable": {"python": "no library"}}'
    await store.renew_sysid(other.sysid, info=unable, lease_ms=60_000, now_ms=T0)
    answer = await site.get(f"/acme/job/{second}/why")
    assert "no python context starts: no library" in answer.json["text"]
    await store.renew_sysid(other.sysid, info='{"languages": ["python"]}', lease_ms=60_000, now_ms=T0)
    await store.set_daemon_paused(other.sysid, paused=True)
    assert await reason(site, second) == "daemon_paused"
    await store.set_daemon_paused(other.sysid, paused=False)
    answer = await site.get(f"/acme/job/{second}/why")
    assert (answer.json["reason"], answer.json["detail"]) == ("in_line", {"ahead": 1, "waiting": 2})
    await store.set_rate_domain(RateDomain("acme", "api", 0.001, 1), now_ms=T0)
    (job,) = await store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=T0)
    assert await reason(site, first) == "running"
    assert await reason(site, second) == "rate_domain"
    await store.delete_rate_domain("acme", "api", now_ms=T0)
    for word in ("tenant_cap", "type_cap", "tenant_share", "long_work", "no_slot"):
        site.control.held_by = word
        assert await reason(site, second) == word
    await site.post("/acme/type/thumb/pause")
    assert await reason(site, second) == "type_paused"
    await store.update_tenant("acme", suspended=True)
    assert await reason(site, second) == "tenant_suspended"
    await store.update_tenant("acme", suspended=False)
    outcome = Outcome(Code.RETRY, 100, T0)
    await store.release_jobs(SYSID, [Retry(job.id, job.token, T0 + 5000, outcome)], now_ms=T0)
    assert await reason(site, first) == "retry_backoff"
    site.clock.advance(5)
    await site.post("/acme/type/thumb/resume")
    await site.run()
    assert await reason(site, first) == "ended"


async def test_why_of_relatives_and_of_a_lost_lease(site: Site) -> None:
    (parent,) = await site.add("p")
    await site.intake.flush()
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=1000, now_ms=T0)
    (child,) = await site.add("c", path=f"{ADD}?parent={parent}")
    assert await reason(site, child) == "waits_for_parent"
    site.clock.advance(2)
    assert await reason(site, parent) == "lease_lapsed"
    site.clock.advance(-2)
    assert job.id == parent


async def test_a_job_that_waited_too_long_says_that_it_was_not_run(site: Site) -> None:
    (job_id,) = await site.add("x")
    assert (await site.get(f"/acme/job/{job_id}")).json["message"] == ""
    await site.store.expire_jobs(now_ms=T0 + 99, done_before_ms=0, waiting_before_ms=T0 + 99, jobtype="acme-thumb")
    told = "it had waited for too long, and was not run"
    assert (await site.get(f"/acme/job/{job_id}")).json["message"] == told
    assert (await site.get("/acme/results")).json["jobs"][0]["message"] == told
    assert (await site.get(f"/acme/job/{job_id}/why")).json["text"].endswith(f": {told}")

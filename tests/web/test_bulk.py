"""Many jobs at once, by a filter: cancel, delete, replay; types by pattern."""

import asyncio
from typing import Any

import pytest

from functory.operations import bulk
from store.base import Code, JobFilter, JobPage, JobState
from tests.support.service import until
from tests.support.web import SYSID, Site


async def add(site: Site, *types: str) -> dict[str, list[str]]:
    """Two jobs of each type, in the store."""
    ids = {name: await site.add("x", "y", path=f"/acme/job/{name}/add") for name in types}
    await site.intake.flush()
    return ids


async def codes(site: Site, *types: str) -> list[str]:
    """How the jobs of these types stand: the code of those that have ended, otherwise the state."""
    found: list[str] = []
    for name in types:
        for state in JobState:
            page = await site.store.list_jobs("acme", JobFilter(state, f"acme-{name}"), now_ms=site.clock.now_ms())
            over = state is JobState.ARCHIVED
            found += [it.outcome.code.value if over and it.outcome else state.value for it in page.records]
    return sorted(found)


async def test_cancel_takes_a_pattern_a_limit_and_a_dry_run(site: Site) -> None:
    await add(site, "mail.send", "mail.read", "thumb")
    request = {"type": "mail*", "limit": 3}
    dry = await site.post("/acme/cancel", json={**request, "dry_run": True})
    assert (dry.json["matched"], dry.json["changed"], dry.json["more"]) == (3, 0, True)
    assert await codes(site, "mail.send", "mail.read") == ["waiting"] * 4
    done = await site.post("/acme/cancel", json=request)
    assert (done.json["matched"], done.json["changed"], done.json["more"]) == (3, 3, True)
    last = await site.post("/acme/cancel", json=request)
    assert (last.json["changed"], last.json["more"]) == (1, False)
    assert await codes(site, "mail.send", "mail.read") == ["cancelled"] * 4
    assert await codes(site, "thumb") == ["waiting"] * 2, "what does not match is left alone"


async def test_cancel_finds_what_was_posted_a_moment_ago(site: Site) -> None:
    """It may still be in the journal."""
    await site.add("x", "y", path="/acme/job/thumb/add")
    assert (await site.post("/acme/cancel", json={"type": "thumb"})).json["changed"] == 2


async def test_cancel_takes_only_the_states_that_are_named(site: Site) -> None:
    await add(site, "thumb")
    await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=60_000, now_ms=site.clock.now_ms())
    waiting = await site.post("/acme/cancel", json={"type": "thumb", "states": ["waiting", "deferred"]})
    assert waiting.json["changed"] == 1
    assert await codes(site, "thumb") == ["cancelled", "running"]
    assert (await site.post("/acme/cancel", json={"type": "*"})).json["changed"] == 1
    assert await codes(site, "thumb") == ["cancelled", "cancelled"]


async def test_cancel_leaves_out_what_was_added_later(site: Site) -> None:
    """Also where the later ones come first in the listing."""
    await add(site, "thumb")
    first = await site.post("/acme/cancel", json={"type": "thumb", "dry_run": True})
    site.clock.advance(1)
    await site.add("z", path="/acme/job/thumb/add?dt=1000&repeat=FINISHED,%20%2B1%20DAY")
    later = await site.add(*"abc", path="/acme/job/thumb/add?dt=1000")
    request = {"type": "thumb", "created_until_ms": first.json["now_ms"] + 1}
    dry = await site.post("/acme/cancel", json={**request, "limit": 1, "dry_run": True})
    assert (dry.json["matched"], dry.json["more"], dry.json["schedules"]) == (1, True, 0)
    done = await site.post("/acme/cancel", json=request)
    assert (done.json["changed"], done.json["more"], done.json["schedules"]) == (2, False, 0)
    assert set(later) & set(done.json["ids"]) == set()
    assert await codes(site, "thumb") == ["cancelled"] * 2 + ["waiting"] * 4


async def test_delete_removes_ended_jobs_only(site: Site) -> None:
    await add(site, "mail", "mall", "thumb")
    for name, code in (("mail", Code.OK), ("mall", Code.FAILED)):
        await site.run(1, code, jobtype=f"acme-{name}")
    assert (await site.post("/acme/delete", json={"type": "ma?l", "codes": ["failed"]})).json["changed"] == 1
    assert await codes(site, "mail", "mall") == ["ok", "waiting", "waiting"]
    assert (await site.post("/acme/delete", json={"type": "*"})).json["changed"] == 1
    assert await codes(site, "mail", "mall", "thumb") == ["waiting"] * 4
    audit = await site.get("/admin/audit", key="operator")
    assert [row["action"] for row in audit.json["events"]][:2] == ["job.delete", "job.delete"]


async def test_replay_takes_a_pattern(site: Site) -> None:
    await add(site, "mail.a", "mail.b", "thumb")
    for name in ("mail.a", "mail.b", "thumb"):
        await site.run(5, Code.FAILED, jobtype=f"acme-{name}")
    assert (await site.post("/acme/replay", json={"type": "mail.[ab]"})).json["replayed"] == 4
    assert await codes(site, "thumb") == ["failed"] * 2
    assert (await site.post("/acme/replay", json={})).json["replayed"] == 2


async def fail_with_a_name_that_is_taken(site: Site, count: int, *types: str) -> None:
    """Jobs of each type that have failed, and whose unique name a later job has."""
    for name in types:
        for _ in range(count):
            await site.post(f"/acme/job/{name}/add", json={"payload": "u", "unique": "taken"})
            await site.run(1, Code.FAILED, jobtype=f"acme-{name}")
            site.clock.advance(1)
        await site.post(f"/acme/job/{name}/add", json={"payload": "u", "unique": "taken", "delay_s": 1000})


@pytest.mark.parametrize("request_", [{}, {"type": "*"}, {"type": "m*l?"}])
async def test_a_replay_goes_on_after_jobs_that_it_cannot_queue(site: Site, request_: dict[str, str]) -> None:
    names = ("mail1", "mail2")
    await add(site, *names)
    for name in names:
        await site.run(5, Code.FAILED, jobtype=f"acme-{name}")
    site.clock.advance(1)
    await fail_with_a_name_that_is_taken(site, 3, *names)
    answers: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while not answers or answers[-1]["more"]:
        answer = await site.post("/acme/replay", json={**request_, **cursor, "limit": 2})
        assert answer.status == 200, answer.body
        answers.append(answer.json)
        cursor = {"cursor": answer.json["cursor"]}
    assert len({job_id for answer in answers for job_id in answer["ids"]}) == sum(it["matched"] for it in answers) == 10
    assert sum(answer["replayed"] for answer in answers) == 4
    assert await codes(site, *names) == ["deferred"] * 2 + ["failed"] * 6 + ["waiting"] * 4
    assert answers[-1]["cursor"] is None


@pytest.mark.parametrize("cursor", ["", "nonsense", "/a.x.y", "acme-thumb/"])
async def test_a_cursor_of_another_listing_is_refused(site: Site, cursor: str) -> None:
    assert (await site.post("/acme/replay", json={"cursor": cursor})).status == 422


@pytest.mark.parametrize("rate_per_s", [1e-300, 5e-324, 1e-9, 6e-8])
async def test_a_replay_over_more_than_a_year_queues_nothing(site: Site, rate_per_s: float) -> None:
    await add(site, "mail", "thumb")
    for name in ("mail", "thumb"):
        await site.run(5, Code.FAILED, jobtype=f"acme-{name}")
    answer = await site.post("/acme/replay", json={"rate_per_s": rate_per_s})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "rate_per_s")
    assert "more than a year" in answer.json["error"]["message"]
    assert await codes(site, "mail", "thumb") == ["failed"] * 4
    last = site.clock.now_ms() + 365 * 86_400_000
    following = await site.post("/acme/replay", json={"rate_per_s": 1, "after_ms": last})
    assert (following.status, await codes(site, "mail")) == (422, ["failed"] * 2)
    assert (await site.post("/acme/replay", json={"rate_per_s": 1e-7})).json["replayed"] == 4


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_what_is_not_said_is_not_done(site: Site, verb: str) -> None:
    await add(site, "thumb")
    assert (await site.post(f"/acme/{verb}", json={})).status == 422
    assert (await site.post(f"/acme/{verb}", json={"type": ""})).status == 422
    assert (await site.post(f"/acme/{verb}", json={"type": "other*"})).json["matched"] == 0
    assert (await site.post(f"/acme/{verb}", key="other", json={"type": "*"})).status == 403


async def test_listings_take_a_pattern(site: Site) -> None:
    await add(site, "mail.send", "mail.read", "thumb")
    found = await site.get("/acme/results?state=waiting&type=mail*")
    assert sorted(job["type"] for job in found.json["jobs"]) == ["mail.read", "mail.read", "mail.send", "mail.send"]
    first = await site.get("/acme/results?state=waiting&type=mail.%5Br-s%5D*&limit=3")
    rest = await site.get(f"/acme/results?state=waiting&type=mail.%5Br-s%5D*&cursor={first.json['cursor']}")
    assert [len(page.json["jobs"]) for page in (first, rest)] == [3, 1]
    assert (await site.get("/acme/results?state=waiting&type=nothing*")).json["jobs"] == []
    assert (await site.get("/acme/results?state=waiting&type=thumb")).json["jobs"] != []
    assert (await site.get("/acme/results?type=a%20b")).status == 422
    for jobtype in ("acme-mail.send", "acme-thumb"):
        await site.run(1, Code.FAILED, jobtype, fingerprint="f", message="oh")
    failures = await site.get("/acme/failures?type=m*")
    assert [group["type"] for group in failures.json["failures"]] == ["mail.send"]


async def test_schedules_are_left_alone_unless_they_are_asked_for(site: Site) -> None:
    await add(site, "mail")
    await site.add("s", path="/acme/job/mail/add?unique=n&repeat=FINISHED,%20%2B1%20DAY&delay_s=60")
    dry = await site.post("/acme/cancel", json={"type": "mail", "dry_run": True})
    assert (dry.json["matched"], dry.json["schedules"]) == (2, 1)
    done = await site.post("/acme/cancel", json={"type": "mail"})
    assert (done.json["changed"], done.json["more"], done.json["schedules"]) == (2, False, 1)
    assert await codes(site, "mail") == ["cancelled", "cancelled", "deferred"]
    done = await site.post("/acme/cancel", json={"type": "mail", "schedules": True})
    assert (done.json["changed"], done.json["schedules"]) == (1, 0)
    again = await site.post("/acme/replay", json={"type": "mail", "codes": ["cancelled"]})
    assert (again.json["replayed"], again.json["schedules"]) == (2, 1)
    assert await codes(site, "mail") == ["cancelled", "waiting", "waiting"]
    again = await site.post("/acme/replay", json={"codes": ["cancelled"], "schedules": True})
    assert (again.json["replayed"], again.json["schedules"]) == (1, 0)
    assert len((await site.get("/acme/schedules")).json["jobs"]) == 1


async def test_schedules_do_not_count_for_the_limit_nor_as_more(site: Site) -> None:
    again = "?repeat=FINISHED,%20%2B1%20DAY"
    await site.add(*"st", path=f"/acme/job/mail/add{again}")
    await site.add(*"abc", path="/acme/job/mail/add")
    await site.add(*"uv", path=f"/acme/job/mail/add{again}")
    for limit, expected in ((2, (2, True)), (3, (3, False)), (4, (3, False))):
        dry = await site.post("/acme/cancel", json={"type": "mail", "limit": limit, "dry_run": True})
        assert (dry.json["matched"], dry.json["more"]) == expected
        assert dry.json["schedules"] == (2 if dry.json["more"] else 4)


async def test_a_replay_goes_on_where_it_stopped_among_schedules(site: Site) -> None:
    for number in range(6):
        again = "?repeat=FINISHED,%20%2B1%20DAY" if number % 2 else ""
        await site.add(str(number), path=f"/acme/job/mail/add{again}")
        await site.intake.flush()
        site.clock.advance(1)
        await site.post("/acme/cancel", json={"type": "mail", "schedules": True})
    cursor, seen, left_alone = None, 0, 0
    for _ in range(3):
        answer = await site.post("/acme/replay", json={"codes": ["cancelled"], "limit": 1, "cursor": cursor})
        seen, left_alone = seen + answer.json["replayed"], left_alone + answer.json["schedules"]
        cursor = answer.json["cursor"]
    assert (seen, cursor) == (3, None)
    assert left_alone >= 3


async def test_a_search_among_very_many_schedules_is_broken_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_MOST_IN_VAIN", 2)
    monkeypatch.setattr(bulk, "_FEW", 2)
    await site.add(*"abcdefgh", path="/acme/job/mail/add?repeat=FINISHED,%20%2B1%20DAY")
    dry = await site.post("/acme/cancel", json={"type": "mail", "limit": 1, "dry_run": True})
    assert (dry.json["matched"], dry.json["more"], dry.json["schedules"]) == (0, True, 4)


async def test_many_types_do_not_break_off_a_search(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_MOST_IN_VAIN", 2)
    monkeypatch.setattr(bulk, "_PAGE", 1)
    await add(site, "a", "b", "c")
    dry = await site.post("/acme/cancel", json={"type": "*", "dry_run": True})
    assert (dry.json["matched"], dry.json["more"]) == (6, False)


@pytest.mark.parametrize("verb", ["cancel", "delete", "replay"])
async def test_a_pattern_of_many_types_reads_as_much_as_one_type(
    site: Site, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(site, *(f"mail{number}" for number in range(20)), "thumb")
    reads, list_jobs = list[str](), site.store.list_jobs

    async def counted(*args: Any, **more: Any) -> JobPage:
        reads.append("read")
        return await list_jobs(*args, **more)

    async def reads_for(pattern: str) -> int:
        reads.clear()
        assert (await site.post(f"/acme/{verb}", json={"type": pattern, "dry_run": True})).status == 200
        return len(reads)

    monkeypatch.setattr(site.store, "list_jobs", counted)
    assert await reads_for("mail*") == await reads_for("thumb") > 0


async def test_a_tenant_does_one_of_these_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    began, let_go, list_jobs = list[str](), asyncio.Event(), site.store.list_jobs

    async def held(tenant: str, *args: Any, **more: Any) -> JobPage:
        began.append(tenant)
        await let_go.wait()
        return await list_jobs(tenant, *args, **more)

    async def all_wait() -> bool:
        own = site.service.bulk_turns._tenants.get("acme")
        return own is not None and own.users == 3

    async def both_have_begun() -> bool:
        return {"acme", "other"} <= set(began)

    await add(site, "thumb")
    monkeypatch.setattr(site.store, "list_jobs", held)
    asked = [
        asyncio.ensure_future(site.post(f"/acme/{verb}", json={"type": "*", "dry_run": True}))
        for verb in ("cancel", "delete", "replay")
    ]
    await until(all_wait)
    asked.append(asyncio.ensure_future(site.post("/other/delete", key="other", json={"type": "nothing"})))
    asked.append(asyncio.ensure_future(site.post("/other/delete", key="other", json={"key": "k"})))
    await until(both_have_begun)
    assert sorted(began) == ["acme", "other"]
    let_go.set()
    assert sorted([(await answer).json["matched"] for answer in asked]) == [0, 0, 0, 0, 2]

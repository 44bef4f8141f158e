"""What a look at the rules of a tenant leads to, on both stores: one job for each change, whatever happens between."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.alerts.judgement import Moment
from functory.alerts.terms import Terms
from functory.operations.alert_looks import look_at_alerts
from functory.operations.alerts import get_alert, mute_alert
from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from store.base import Archive, Code, Discard, Outcome, Retry
from store.errors import StoreUnavailable
from store.values.scoreboard import HOUR_MS, MINUTE_MS
from tests.support.alert_rules import ACME, add, end, look, set_rule, states, told, who
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.web import SYSID, Site, open_site


@pytest.fixture(params=back_end_params())
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_site(tmp_path, store_url=url) as site:
        yield site


async def test_a_rule_that_begins_to_hold_is_told_once_and_so_is_its_end(site: Site) -> None:
    await set_rule(site)
    await end(site, count=2)
    await look(site)
    assert await told(site) == [], "two are not more than two"
    await end(site)
    await look(site)
    await look(site)
    (firing,) = await told(site)
    fired_ms = site.clock.now_ms() - 10_000
    assert firing == {
        "alert": "rule",
        "state": "firing",
        "tenant": "acme",
        "type": "mail",
        "condition": {"when": "failures", "more_than": 2, "window_s": 600},
        "value": 3,
        "since_ms": fired_ms,
        "at_ms": fired_ms,
        "text": "FIRING rule: mail: more than 2 failures in 10 minutes",
    }
    await look(site, 700)
    assert len(await told(site)) == 1, "it is calm for a minute before it is over"
    await look(site, 61)
    await look(site)
    _, resolved = await told(site)
    assert (resolved["state"], resolved["since_ms"], resolved["value"]) == ("resolved", fired_ms, 0)
    rule = await get_alert(site.service, ACME, "rule")
    assert (rule.standing.phase, rule.standing.notice) == ("ok", None)


async def test_runs_that_are_tried_again_count_as_failures(site: Site) -> None:
    await set_rule(site)
    await add(site, 3)
    now_ms = site.clock.now_ms()
    jobs = await site.store.claim_jobs("acme-mail", 3, owner=SYSID, lease_ms=30_000, now_ms=now_ms)
    outcome = Outcome(Code.ERROR, 500, now_ms, 1, None, b"", 1, "L2")
    again = [Retry(it.id, it.token, now_ms + 3_600_000, outcome) for it in jobs]
    await site.store.release_jobs(SYSID, again, now_ms=now_ms)
    await look(site)
    assert await states(site) == [("rule", "firing")]


async def test_two_daemons_that_look_at_once_tell_once(site: Site, tmp_path: Path) -> None:
    await set_rule(site)
    await end(site, count=3)
    site.clock.advance(10)
    moment = Moment(site.clock.now_ms())
    await asyncio.gather(*(look_at_alerts(site.service, ACME, moment) for _ in range(5)))
    await look(site)
    assert await states(site) == [("rule", "firing")]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "discarded"])
@pytest.mark.parametrize("cut", ["before", "after"])
async def test_who_dies_between_the_change_and_its_end_is_gone_on_for(
    site: Site, cut: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification was not added yet, or it was, and its handler may have run and left nothing."""
    await set_rule(site)
    await end(site, count=3)
    add_once, put = site.store.add_jobs_once, site.store.put_alert
    puts = 0

    async def no_add(*_: Any, **__: Any) -> bytes:
        raise StoreUnavailable("cut")

    async def one_put(record: Any) -> bool:
        nonlocal puts
        puts += 1
        if puts > 1:
            raise StoreUnavailable("cut")
        return await put(record)

    if cut == "before":
        monkeypatch.setattr(site.store, "add_jobs_once", no_add)
    else:
        monkeypatch.setattr(site.store, "put_alert", one_put)
    with pytest.raises(StoreUnavailable):
        await look(site)
    assert len(await told(site)) == (cut == "after")
    if cut == "after" and not kept:
        await discard(site)
        assert await told(site) == []
    monkeypatch.setattr(site.store, "add_jobs_once", add_once)
    monkeypatch.setattr(site.store, "put_alert", put)
    await look(site)
    await look(site)
    assert len(await told(site)) == (cut == "before" or kept)
    assert (await get_alert(site.service, ACME, "rule")).standing.notice is None


async def discard(site: Site) -> None:
    now_ms = site.clock.now_ms()
    jobs = await site.store.claim_jobs("acme-tell", 9, owner=SYSID, lease_ms=30_000, now_ms=now_ms)
    outcome = Outcome(Code.OK, 200, now_ms, 1, None, b"", 1, "L2")
    report = await site.store.release_jobs(SYSID, [Discard(it.id, it.token, outcome) for it in jobs], now_ms=now_ms)
    assert not report.stale


async def test_a_muted_rule_tells_afterwards_what_is_still_so(site: Site) -> None:
    await set_rule(site)
    await mute_alert(site.service, await who(site), "rule", 3600)
    await end(site, count=3)
    await look(site)
    assert (await get_alert(site.service, ACME, "rule")).standing.phase == "firing"
    await look(site, 1000)
    await look(site, 100)
    assert (await get_alert(site.service, ACME, "rule")).standing.phase == "ok"
    assert await told(site) == []
    await look(site, 3000)
    assert await told(site) == [], "it came and went within the mute"
    await mute_alert(site.service, await who(site), "rule", 60)
    await end(site, count=3)
    await look(site)
    assert await told(site) == []
    await look(site, 61)
    assert await states(site) == [("rule", "firing")]


async def test_a_notification_over_quota_is_told_when_there_is_room(site: Site) -> None:
    await set_rule(site)
    await end(site, count=3)
    await update_tenant(site.service, "op", ACME, limits=TenantLimits(max_jobs=3))
    await look(site)
    rule = await get_alert(site.service, ACME, "rule")
    assert rule.standing.notice is not None
    assert "jobs" in rule.standing.trouble
    await look(site, 5)
    await update_tenant(site.service, "op", ACME, limits=TenantLimits())
    await look(site)
    assert await states(site) == [("rule", "firing")]
    assert (await get_alert(site.service, ACME, "rule")).standing.trouble == ""


async def test_a_failing_notifier_makes_no_more_notifications(site: Site) -> None:
    """A pattern leaves out all types that notify; only who names one watches it."""
    await set_rule(site, Terms(type="*", notify="tell", when="failures", more_than=0, window_s=60))
    await set_rule(site, Terms(type="*", notify="tell2", when="failures", more_than=0, window_s=60), "second")
    await set_rule(site, Terms(type="tell2", notify="tell3", when="failures", more_than=0, window_s=60), "third")
    await end(site)
    await look(site)
    assert len(await told(site)) == len(await told(site, "tell2")) == 1
    for _ in range(5):
        for type_name in ("tell", "tell2"):
            await site.run(9, Code.FAILED, f"acme-{type_name}")
        await look(site, 70)
    counts = [len(await told(site, name)) for name in ("tell", "tell2", "tell3")]
    assert counts[:2] == [2, 2], "one when it began, one when it was over"
    assert counts[2] <= 2 * counts[1], "who watches a notifier by its name is told of what it does"


async def test_a_share_counts_from_enough_runs_on(site: Site) -> None:
    await set_rule(site, Terms(type="mail", notify="tell", when="failures", share_above=0.5, at_least=4, window_s=600))
    await end(site, count=3)
    await look(site)
    assert await told(site) == []
    await end(site, Code.OK)
    await look(site)
    (firing,) = await told(site)
    assert firing["value"] == 0.75


async def test_a_job_that_waits_for_too_long(site: Site) -> None:
    await set_rule(site, Terms(type="mail*", notify="tell", when="waiting", longer_than_s=300, for_s=60))
    await add(site)
    await add(site, type_name="mail.out")
    await look(site, 299)
    await look(site, 10)
    assert (await get_alert(site.service, ACME, "rule")).standing.phase == "rising"
    assert await told(site) == []
    await look(site, 60)
    (firing,) = await told(site)
    assert firing["value"] == 369
    for type_name in ("mail", "mail.out"):
        await site.run(1, Code.OK, f"acme-{type_name}")
    await look(site)
    await look(site, 60)
    assert await states(site) == [("rule", "firing"), ("rule", "resolved")]


async def test_a_backlog_of_all_types_that_a_pattern_matches(site: Site) -> None:
    await set_rule(site, Terms(type="mail*", notify="tell", when="backlog", more_than=3))
    await add(site, 2)
    await add(site, 9, "print")
    await look(site)
    assert await told(site) == []
    await add(site, 2, "mail.out")
    await look(site)
    (firing,) = await told(site)
    assert firing["value"] == 4


async def test_silence_counts_from_when_the_rule_was_set(site: Site) -> None:
    await set_rule(site, Terms(type="report", notify="tell", when="silent", window_s=26 * 3600))
    await look(site, 25 * 3600)
    assert await told(site) == []
    await end(site, Code.OK, type_name="report")
    await look(site, 25 * 3600)
    assert await told(site) == []
    await end(site, Code.FAILED, type_name="report")
    await look(site, 2 * 3600)
    assert await states(site) == [("rule", "firing")], "what failed is no sign of life"
    await end(site, Code.OK, type_name="report")
    await look(site)
    await look(site, 60)
    assert await states(site) == [("rule", "firing"), ("rule", "resolved")]


@pytest.mark.parametrize("ahead_s", [30, 600, 10**8])
async def test_silence_counts_from_the_first_look_if_the_rule_was_set_by_a_clock_that_is_ahead(
    site: Site, ahead_s: int
) -> None:
    site.clock.advance(ahead_s)
    await set_rule(site, Terms(type="report", notify="tell", when="silent", window_s=3600))
    site.clock.advance(-ahead_s)
    await look(site)
    await look(site, 3590)
    assert await told(site) == []
    await look(site, 60)
    assert await states(site) == [("rule", "firing")]


async def test_what_a_daemon_counts_whose_clock_is_ahead_is_a_sign_of_life(site: Site) -> None:
    await set_rule(site, Terms(type="report", notify="tell", when="silent", window_s=600))
    for _ in range(3):
        await look(site, 400)
        site.clock.advance(3000)
        await end(site, Code.OK, type_name="report")
        site.clock.advance(-3000)
    await look(site)
    assert await told(site) == []
    await look(site, 3000 + 660)
    assert await states(site) == [("rule", "firing")], "late by as much"


async def test_silence_of_days_is_seen_in_hours(site: Site) -> None:
    """Minutes are kept for two days."""
    await set_rule(site, Terms(type="report", notify="tell", when="silent", window_s=5 * 86_400))
    await end(site, Code.OK, type_name="report")
    for _ in range(5):
        site.clock.advance(86_400 - 600)
        await site.store.expire_records(now_ms=site.clock.now_ms(), audit_before_ms=0)
    await look(site)
    assert await told(site) == []
    await look(site, 2 * 3600)
    assert await states(site) == [("rule", "firing")]


async def test_jobs_that_nobody_serves(site: Site) -> None:
    await set_rule(site, Terms(type="render", notify="tell", when="no_worker", longer_than_s=600))
    await look(site, 1000)
    assert await told(site) == [], "nothing waits"
    await add(site, type_name="render")
    await look(site, 601)
    assert await states(site) == [("rule", "firing")], "there is no handler"
    await site.call("PUT", "/acme/handler/render?lang=sh", data=b"true")
    await look(site)
    await look(site, 61)
    assert await states(site) == [("rule", "firing"), ("rule", "resolved")]


async def test_a_leap_of_the_clock_tells_nothing(site: Site) -> None:
    await set_rule(site, Terms(type="report", notify="tell", when="silent", window_s=3600), "silent")
    await set_rule(site, Terms(type="report", notify="tell", when="waiting", longer_than_s=3600), "slow")
    await add(site, type_name="report")
    await look(site)
    leapt_ms = site.clock.now_ms() + 100 * HOUR_MS
    await look(site, 360_000, leapt_ms)
    assert await told(site) == []
    await look(site, 3600 + MINUTE_MS / 1000, leapt_ms)
    assert sorted(await states(site)) == [("silent", "firing"), ("slow", "firing")]


async def test_a_suspended_tenant_is_not_looked_at(site: Site) -> None:
    await set_rule(site)
    await end(site, count=3)
    await update_tenant(site.service, "op", ACME, suspended=True)
    await look(site)
    assert (await get_alert(site.service, ACME, "rule")).standing.phase == "ok"
    await update_tenant(site.service, "op", ACME, suspended=False)
    await look(site)
    assert await states(site) == [("rule", "firing")]


async def test_a_rule_that_is_changed_meanwhile_is_left_to_the_next_look(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_rule(site)
    await end(site, count=3)
    count = site.store.count_by_type

    async def change_then_count(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(site.store, "count_by_type", count)
        await set_rule(site, Terms(type="mail", notify="tell", when="failures", more_than=5, window_s=600))
        return await count(*given, **more)

    monkeypatch.setattr(site.store, "count_by_type", change_then_count)
    await look(site)
    await look(site)
    assert await told(site) == []


async def test_no_look_reads_jobs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the rules are, counters and buckets say all."""
    for when in ("failures", "waiting", "backlog", "silent", "no_worker"):
        await set_rule(site, Terms(type="*", notify="tell", when=when, window_s=600, longer_than_s=60), when)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a look at jobs")

    for verb in ("list_jobs", "get_job", "get_states", "list_failure_groups", "get_buckets"):
        monkeypatch.setattr(site.store, verb, refuse)
    await look(site)


async def test_an_end_of_a_job_counts_whoever_ended_it(site: Site) -> None:
    """Jobs that repeat count with each round, like all others: by their outcome."""
    await set_rule(site, Terms(type="mail", notify="tell", when="silent", window_s=600))
    await add(site)
    now_ms = site.clock.now_ms()
    (job,) = await site.store.claim_jobs("acme-mail", 1, owner=SYSID, lease_ms=30_000, now_ms=now_ms)
    site.clock.advance(599)
    outcome = Outcome(Code.OK, 200, now_ms, 1, None, b"", 1, "L2")
    await site.store.release_jobs(SYSID, [Archive(job.id, job.token, outcome)], now_ms=site.clock.now_ms())
    await look(site)
    assert await told(site) == []


@pytest.mark.parametrize(
    "settings",
    [
        '{"type":"mail","notify":"tell","when":"failures","window_s":1000000000000}',
        '{"type":"%s*","notify":"tell","when":"backlog"}' % ("a" * 300),
        '{"type":"mail","notify":"tell","when":"backlog","new":%s}' % ("[" * 5000 + "]" * 5000),
    ],
    ids=["a longer window", "a longer pattern", "deeply nested"],
)
async def test_a_rule_that_this_version_would_refuse_keeps_no_other_from_being_looked_at(
    site: Site, settings: str
) -> None:
    for name in ("odd", "rule", "zeal"):
        await set_rule(site, name=name)
    (odd, *_) = await site.store.list_alerts(ACME)
    assert await site.store.put_alert(odd._replace(version=2, settings=settings))
    await end(site, count=3)
    await look(site)
    assert sorted(await states(site)) == [("rule", "firing"), ("zeal", "firing")]

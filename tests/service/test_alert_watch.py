"""The watch over all tenants' alert rules: one daemon looks, a slow tenant rests, one that goes is followed."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.alerts.judgement import Moment
from functory.alerts.terms import Terms, encode_terms
from functory.daemon import alert_watch
from functory.daemon.alert_watch import MOST_S, REST, AlertWatch
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations.alert_looks import look_at_alerts
from functory.operations.alerts import get_alert, put_alert
from functory.operations.daemons import encode_info
from functory.operations.keyring import principal_of
from functory.operations.service import Service
from store.base import Tenant
from store.errors import StoreUnavailable
from tests.support.clocks import FakeClock
from tests.support.service import payloads_waiting, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.two_daemons import two_daemons

BACKLOG = Terms(type="mail", notify="tell", when="backlog", more_than=0)


@pytest.fixture(params=back_end_params())
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as store:
        yield store


async def set_rule(daemon: Daemon, tenant: str = "acme", terms: Terms = BACKLOG) -> None:
    if await daemon.store.get_tenant(tenant) is None:
        await daemon.store.create_tenant(Tenant(tenant, daemon.clock.now_ms()))
    service = service_of(daemon)
    who = await principal_of(service, tenant, "test", frozenset())
    assert who is not None
    await put_alert(service, who, "rule", terms)


async def told(daemon: Daemon) -> list[str]:
    return [json.loads(payload)["state"] for payload in await payloads_waiting(daemon, "acme-tell")]


async def test_of_two_daemons_the_newest_looks_and_the_other_when_that_is_gone(tmp_path: Path, url: str) -> None:
    async with two_daemons(tmp_path, url) as (a, b):
        await set_rule(a)
        await a.intake.write("acme-mail", [b"1"])
        await a.intake.flush()
        await a.upkeep.alerts.look()
        assert await told(a) == []
        await asyncio.gather(*(daemon.upkeep.alerts.look() for daemon in (a, b, b)))
        assert await told(a) == ["firing"]
        await b.store.release_sysid(b.sysid)
        await a.store.delete_alert("acme", "rule")
        await set_rule(a)
        await a.upkeep.alerts.look()
        assert await told(a) == ["firing", "firing"]
        await b.upkeep.alerts.look()
        assert await told(a) == ["firing", "firing"]


async def test_a_daemon_whose_clock_was_far_ahead_keeps_nobody_from_looking(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        now_ms = daemon.clock.now_ms()
        info = json.dumps({"role": "all"})
        await daemon.store.reserve_sysid(info=info, lease_ms=10_000, now_ms=now_ms + 86_400_000)
        await set_rule(daemon)
        await daemon.intake.write("acme-mail", [b"1"])
        await daemon.intake.flush()
        await daemon.upkeep.alerts.look()
        assert await told(daemon) == ["firing"]


async def test_the_duty_looks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functory.daemon.upkeep.LOOK_EVERY_S", 0.02)
    async with running_daemon(tmp_path) as daemon:
        await set_rule(daemon)
        await daemon.intake.write("acme-mail", [b"1"])

        async def has_fired() -> bool:
            return (await get_alert(service_of(daemon), "acme", "rule")).standing.is_told

        await until(has_fired)


class Looks:
    """In place of looks: which there were, and what becomes of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
        self.of: list[str] = []
        self.moments: list[Moment] = []
        self.takes_s: dict[str, float] = {}
        self.hangs: set[str] = set()
        self.fails: set[str] = set()
        self._clock = clock
        monkeypatch.setattr(alert_watch, "look_at_alerts", self.look)

    async def look(self, _: Service, tenant: str, moment: Moment) -> None:
        self.of.append(tenant)
        self.moments.append(moment)
        if tenant in self.hangs:
            await asyncio.Event().wait()
        if tenant in self.fails:
            raise RuntimeError("a defect")
        self._clock.elapsed_s += self.takes_s.get(tenant, 0)
        self._clock.wall_ms += round(1000 * self.takes_s.get(tenant, 0))

    def taken(self) -> list[str]:
        found, self.of = sorted(self.of), []
        return found


async def watch_of(daemon: Daemon, clock: FakeClock) -> AlertWatch:
    """On its own clock, by which the daemon lives on."""
    for tenant in ("acme", "busy", "calm"):
        await set_rule(daemon, tenant)
    info = encode_info(daemon.vitals.info())
    await daemon.store.renew_sysid(daemon.sysid, info=info, lease_ms=10**9, now_ms=clock.now_ms())
    return AlertWatch(service_of(daemon), clock, 10**9, lambda: None)


async def test_a_tenant_whose_looks_take_long_rests_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path) as daemon:
        clock = FakeClock(daemon.clock.now_ms())
        watch, looks = await watch_of(daemon, clock), Looks(monkeypatch, clock)
        looks.takes_s = {"busy": 2.0}
        for _ in range(3):
            await watch.look()
            clock.advance(10)
        assert looks.taken().count("busy") == 1
        clock.advance(2.0 * REST)
        await watch.look()
        assert looks.taken() == ["acme", "busy", "calm"]


async def test_a_look_that_hangs_ends_and_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_watch, "MOST_S", 0.01)
    assert MOST_S > 1
    async with running_daemon(tmp_path) as daemon:
        clock = FakeClock(daemon.clock.now_ms())
        watch, looks = await watch_of(daemon, clock), Looks(monkeypatch, clock)
        looks.hangs = {"acme", "busy"}
        await watch.look()
        assert looks.taken() == ["acme", "busy", "calm"]


async def test_a_look_that_fails_is_told_and_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_daemon(tmp_path) as daemon:
        clock = FakeClock(daemon.clock.now_ms())
        watch, looks = await watch_of(daemon, clock), Looks(monkeypatch, clock)
        looks.fails = {"acme", "busy"}
        await watch.look()
        assert looks.taken() == ["acme", "busy", "calm"]
    failed = [record.__dict__["tenant"] for record in caplog.records if record.message == "alerts.look_failed"]
    assert sorted(failed) == ["acme", "busy"]


async def test_a_rule_with_a_number_that_nobody_can_set_costs_no_other_rule_its_look(tmp_path: Path) -> None:
    """An import has brought it."""
    async with running_daemon(tmp_path) as daemon:
        await set_rule(daemon)
        (rule,) = await daemon.store.list_alerts("acme")
        terms = Terms(type="mail", notify="tell", when="silent", window_s=-(2**63))
        await daemon.store.put_alert(rule._replace(name="wrong", settings=encode_terms(terms)))
        await daemon.intake.write("acme-mail", [b"1"])
        await daemon.intake.flush()
        moment = Moment(daemon.clock.now_ms())
        for mix in (list.sort, list.reverse):  # in one order and in the other
            await look_at_alerts(service_of(daemon), "acme", moment, mix=mix)
        assert await told(daemon) == ["firing"]


@pytest.mark.parametrize("leap_s", [7200, -7200, 61, -61])
async def test_a_leap_of_the_clock_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leap_s: int) -> None:
    async with running_daemon(tmp_path) as daemon:
        clock = FakeClock(daemon.clock.now_ms())
        watch, looks = await watch_of(daemon, clock), Looks(monkeypatch, clock)

        async def even_since_ms() -> int:
            await watch.look()
            return looks.moments[-1].even_since_ms

        assert await even_since_ms() == 0
        clock.advance(3600)
        assert await even_since_ms() == 0, "time that passes is no leap"
        clock.wall_ms += leap_s * 1000
        leapt_ms = clock.wall_ms
        assert await even_since_ms() == leapt_ms
        clock.advance(10)
        assert await even_since_ms() == leapt_ms


async def test_a_store_that_is_away_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        watch = await watch_of(daemon, FakeClock(daemon.clock.now_ms()))

        async def away(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("away")

        monkeypatch.setattr(daemon.store, "count_by_type", away)
        monkeypatch.setattr(daemon.store, "get_counters", away)
        await watch.look()
        monkeypatch.setattr(daemon.store, "list_alert_tenants", away)
        with pytest.raises(StoreUnavailable):
            await watch.look()

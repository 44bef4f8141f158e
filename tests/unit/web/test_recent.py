"""Reading the last hour again costs the newest minutes, and shows what reading all of it would show."""

from pathlib import Path

from functory.operations.principal import Principal
from functory.tenant_limits import TenantLimits
from functory.web.pages.charts import first_minute_ms
from functory.web.pages.recent import Recent
from store.base import Code
from tests.support.web import Site, open_site

ACME = Principal("key", "acme", frozenset({"read"}), TenantLimits())


async def test_what_is_kept_is_what_would_be_read_and_old_minutes_are_read_once(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        recent = Recent(site.service)
        asked: list[int] = []
        read = site.store.get_type_counts

        async def spied(tenant: str, jobtypes: list[str], **window: int) -> object:
            asked.append(window["since_ms"])
            return await read(tenant, jobtypes, **window)

        site.store.get_type_counts = spied  # type: ignore[method-assign,assignment]  # to see what is asked
        for number in range(130):
            site.clock.advance(30)  # two looks in each minute: one that is not over is read again
            await site.add("a", "b")
            await site.run(1, Code.OK)
            await site.run(1, Code.FAILED)
            hour = (await recent.hours(ACME, ["acme-thumb"]))["acme-thumb"]
            now_ms = site.clock.now_ms()
            window = {"width_ms": 60_000, "since_ms": first_minute_ms(now_ms), "until_ms": now_ms + 1}
            assert hour.ended == (await read("acme", ["acme-thumb"], **window))["acme-thumb"], number
            assert hour.total.ok == hour.total.failed == sum(it.ok for it in hour.ended.values())
        assert len((await recent.hours(ACME, ["acme-thumb"]))["acme-thumb"].ended) == 60
        newest = site.clock.now_ms() - asked[-1]
        assert newest < 5 * 60_000, "not the whole hour again"


async def test_after_the_clock_was_set_back_the_hour_has_what_ended_in_it(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        recent = Recent(site.service)
        await site.add("a")
        await site.run(1, Code.OK)
        site.clock.advance(2 * 3600)
        await recent.snapshot(ACME)
        await recent.hours(ACME, ["acme-thumb"])
        site.clock.advance(60 - 2 * 3600)
        minutes = (await recent.snapshot(ACME)).minutes
        hour = (await recent.hours(ACME, ["acme-thumb"]))["acme-thumb"]
        assert hour.total.ok == 1
        assert sum(it.ok for it in minutes.values()) == 1


async def test_counts_are_those_of_the_last_minutes_at_every_moment(tmp_path: Path) -> None:
    ok, every = frozenset({Code.OK}), frozenset(Code)
    async with open_site(tmp_path) as site:
        for number in range(60):
            site.clock.advance(150)  # two hours and a half: past two ends of an hour
            await site.add(*"x" * (number % 3 + 2))
            await site.run(number % 3 + 1)
            await site.run(1, Code.FAILED)
            now_ms = site.clock.now_ms()
            for minutes, codes in ((60, ok), (60, every), (5, every)):
                since_ms = (now_ms // 60_000 - minutes + 1) * 60_000
                buckets = await site.store.get_buckets("acme", width_ms=60_000, since_ms=since_ms, until_ms=now_ms + 1)
                expected = sum(getattr(bucket, code.value) for bucket in buckets for code in codes)
                counts = await Recent(site.service).counts(ACME, minutes, codes)
                assert counts == ({"acme-thumb": expected} if expected else {}), (number, minutes)


async def test_a_snapshot_is_shared_for_a_second_and_forgotten_on_a_change(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        recent = Recent(site.service)
        await site.add("x")
        await site.intake.flush()
        first = await recent.snapshot(ACME)
        assert await recent.snapshot(ACME) is first
        recent.forget(ACME)
        second = await recent.snapshot(ACME)
        assert second is not first
        site.clock.advance(1)
        assert await recent.snapshot(ACME) is not second


async def test_a_type_with_a_handler_and_no_jobs_is_there_in_its_place(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await _three(site)
        seen = await Recent(site.service).snapshot(ACME)
        assert list(seen.counters) == ["acme-a", "acme-b", "acme-c"]


async def _three(site: Site) -> None:
    await site.add("x", path="/acme/job/a/add")
    await site.add("x", path="/acme/job/c/add")
    await site.call("PUT", "/acme/handler/b?lang=sh", data=b"cat")
    await site.intake.flush()

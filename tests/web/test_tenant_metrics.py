"""What a tenant's own Prometheus reads."""

import asyncio
import re

from store.base import Code
from tests.support.web import Site

_SAMPLE = re.compile(r'functory_[a-z_]+\{([a-z]+="[^"\n]*",?)+\} -?[0-9.e+-]+')


async def samples(site: Site, path: str = "/acme/metrics") -> dict[str, float]:
    answer = await site.get(path)
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    metric = ""
    seen: set[str] = set()
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            metric = line.split()[2]
            assert metric not in seen, "the samples of a metric stand together"
            seen.add(metric)
        else:
            assert _SAMPLE.fullmatch(line), line
            assert line.partition("{")[0] == metric
            name, _, value = line.rpartition(" ")
            assert name not in found
            found[name] = float(value)
    return found


async def test_a_tenant_has_the_figures_of_its_types(site: Site) -> None:
    await site.add("x", "y", "z", "w")
    await site.run(2, duration_us=1_500_000)
    await site.run(1, Code.FAILED)
    await site.post("/acme/type/thumb/pause")
    site.clock.advance(30)
    found = await samples(site)
    one = 'tenant="acme",type="thumb"'
    assert found[f'functory_jobs{{{one},state="waiting"}}'] == 1
    assert found[f'functory_job_endings_total{{{one},code="ok"}}'] == 2
    assert found[f'functory_job_endings_total{{{one},code="failed"}}'] == 1
    assert found[f'functory_job_endings_total{{{one},code="abandoned"}}'] == 0
    assert found[f"functory_type_paused{{{one}}}"] == 1
    assert found[f"functory_recent_runs{{{one}}}"] == 3
    assert 2.9 < found[f"functory_recent_run_seconds{{{one}}}"] < 3.1
    assert 1.3 < found[f'functory_run_seconds{{{one},quantile="0.95"}}'] < 1.7
    assert f'functory_wait_seconds{{{one},quantile="0.5"}}' in found
    assert 300 <= found['functory_recent_window_seconds{tenant="acme"}'] <= 360


async def test_the_oldest_waiting_job_tells_for_how_long(site: Site) -> None:
    await site.add("x")
    await site.intake.flush()
    site.clock.advance(90)
    found = await samples(site)
    assert found['functory_waiting_oldest_seconds{tenant="acme",type="thumb"}'] == 90


async def test_counters_stay_when_the_window_has_passed(site: Site) -> None:
    await site.add("x")
    await site.run()
    before = await samples(site)
    site.clock.advance(86_400 * 3)
    await site.store.expire_records(now_ms=site.clock.now_ms(), audit_before_ms=0)
    after = await samples(site)
    totals = {name: value for name, value in before.items() if "_total" in name}
    assert totals
    assert {name: after[name] for name in totals} == totals
    assert after['functory_recent_runs{tenant="acme",type="thumb"}'] == 0
    assert not [name for name in after if "quantile" in name], "of nothing there is no quantile"


async def test_one_may_ask_for_some_types_only(site: Site) -> None:
    await site.add("x")
    await site.add("x", path="/acme/job/mail.out/add")
    await site.intake.flush()
    assert {
        'type="mail.out"' in name for name in await samples(site, "/acme/metrics?type=mail*") if "type=" in name
    } == {True}
    assert [name for name in await samples(site, "/acme/metrics?type=mail") if "type=" in name] == []
    assert (await site.get("/acme/metrics?type=a b")).status == 422
    assert (await site.get(f"/acme/metrics?type={'*' * 128}")).status == 422


async def test_nobody_else_sees_them(site: Site) -> None:
    await site.add("x")
    assert (await site.get("/acme/metrics", key="other")).status == 403
    assert (await site.get("/acme/metrics", key=None)).status == 401
    assert all('tenant="other"' in name for name in await samples_of_other(site))


async def samples_of_other(site: Site) -> list[str]:
    text = (await site.get("/other/metrics", key="other")).body.decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


async def test_all_who_ask_at_once_share_a_look_at_what_waits(site: Site) -> None:
    looks = 0
    ask = site.store.get_waiting_jobtypes

    async def count(**more: int) -> object:
        nonlocal looks
        looks += 1
        return await ask(now_ms=more["now_ms"])

    behind = site.store
    behind.get_waiting_jobtypes = count  # type: ignore[method-assign,assignment]
    await asyncio.gather(*(site.get("/acme/metrics") for _ in range(5)), site.get("/other/metrics", key="other"))
    assert looks == 1

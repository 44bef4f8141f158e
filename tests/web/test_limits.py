"""What a tenant has of what it may have: by HTTP, command line, page and Prometheus."""

import asyncio
import re
from typing import Any

import pytest

from functory.client import Client
from functory.intake.admission import MAX_TYPES
from tests.support.pages import visitor
from tests.support.terminal import Terminal
from tests.support.web import Site


async def limit(site: Site, **limits: Any) -> None:
    answer = await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
    assert answer.status == 200, answer.body


async def three_jobs(site: Site) -> None:
    """Of three types, one of which has nothing left to do."""
    await site.add("a", path="/acme/job/over/add")
    await site.intake.flush()
    await site.run(1, jobtype="acme-over")
    await site.add("b", path="/acme/job/waits/add")
    await site.add("c", path="/acme/job/held/add")
    await site.intake.flush()
    await site.call("PUT", "/acme/handler/waits?lang=python", data=b"return 1")


async def test_a_tenant_sees_what_it_has_of_what_it_may_have(site: Site) -> None:
    await limit(site, max_jobs=10, requests_per_s=500)
    await three_jobs(site)
    shown = (await site.get("/acme/limits")).json
    usage = shown["usage"]
    assert (usage["jobs"], usage["handlers"], usage["types"]) == (3, 1, 2)
    assert usage["size_bytes"] > 3
    limits = {name: value for name, value in shown["limits"].items() if value is not None}
    assert limits == {"max_jobs": 10, "max_types": MAX_TYPES, "requests_per_s": 500}
    assert (shown["tenant"], shown["suspended"]) == ("acme", False)


async def test_it_sees_that_it_is_suspended_and_nobody_else_sees_it(site: Site) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": True})
    assert (await site.get("/acme/limits")).json["suspended"] is True
    assert (await site.get("/acme/limits", key="other")).status == 403
    assert (await site.get("/acme/limits", key=None)).status == 401


async def test_the_limit_that_is_shown_is_the_one_that_refuses(site: Site) -> None:
    await three_jobs(site)
    await limit(site, max_types=2)
    site.clock.advance(10)
    async with Client(site.url, site.keys["acme"], tenant="acme") as client:
        shown = await client.limits()
    assert shown.usage.types == shown.limits.max_types
    refused = await site.post("/acme/job/another/add", data=b"x")
    assert refused.code == "quota_exceeded"
    assert (
        "would have 3 types with jobs that are not over, and may have 2: wait until all jobs of one"
        in (refused.json["error"]["message"])
    )
    assert (await site.post("/acme/job/waits/add", data=b"x")).status == 200


async def test_the_command_says_it_in_words(site: Site, terminal: Terminal) -> None:
    await limit(site, max_jobs=1000, max_running=4, network=False)
    await three_jobs(site)
    told = (await terminal.run("limits")).splitlines()
    assert told[0] == "tenant  acme"
    assert re.fullmatch(r"stored  3 of 1,000 jobs, [0-9,]+ bytes, 1 handler", told[1])
    assert told[2] == "types   2 of 5,000 types with jobs that are not over, or paused"
    assert told[3] == "others  max_running=4 network=false"
    await limit(site)
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": True})
    told = (await terminal.run("limits")).splitlines()
    assert (told[0], told[3]) == ("tenant  acme (suspended: it can only read)", "others  none")


async def test_prometheus_can_tell_when_a_limit_is_near(site: Site) -> None:
    await limit(site, max_jobs=4, max_bytes=1_000_000)
    await three_jobs(site)
    text = (await site.get("/acme/metrics?type=waits")).body.decode()
    numbers = dict(re.findall(r'functory_((?:usage|limit)\{tenant="acme",of="[a-z]+)"\} (\S+)', text))
    assert {name.replace('{tenant="acme",of="', " "): value for name, value in numbers.items()} == {
        "usage jobs": "3",
        "usage bytes": numbers['usage{tenant="acme",of="bytes'],
        "usage handlers": "1",
        "usage types": "2",
        "limit jobs": "4",
        "limit bytes": "1000000",
        "limit types": "5000",
    }


@pytest.mark.parametrize(
    ("limits", "shown", "is_near"),
    [
        ({}, "3", False),
        ({"max_jobs": 4}, "3 of 4", False),
        ({"max_jobs": 3}, "3 of 3", True),
        ({"max_jobs": 0}, "3 of 0", True),
        ({"max_bytes": 300}, "3", True),
    ],
)
async def test_the_page_shows_it_and_marks_what_is_nearly_used_up(
    site: Site, limits: dict[str, int], shown: str, is_near: bool
) -> None:
    await three_jobs(site)
    await limit(site, **limits)
    async with visitor(site, "acme") as somebody:
        page = (await somebody.get("/ui/t/acme")).text
    found = re.search(r'<div class="tile( bad)?"><dt>Stored · [^<]*</dt><dd>([^<]*)</dd>', page)
    assert found is not None
    assert (found[2], bool(found[1])) == (shown, is_near)


async def test_handlers_that_are_registered_at_the_same_time_keep_to_the_quota(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"max_handlers": 2}})
    assert (await site.call("PUT", "/acme/handler/old?lang=sh", data=b"true")).status == 200
    assert (await site.call("DELETE", "/acme/handler/old")).status == 200
    checked, all_are_checked = 0, asyncio.Event()

    async def check(*_: object) -> None:
        nonlocal checked
        checked += 1
        if checked == 3:
            all_are_checked.set()
        await all_are_checked.wait()

    monkeypatch.setattr(site.trial_runs, "check", check)
    puts = [site.call("PUT", f"/acme/handler/{name}?lang=sh", data=b"true") for name in "abc"]
    back = site.post("/acme/handler/old/rollback", json={"version": 1})
    answers = await asyncio.gather(*puts, back)
    assert sorted(answer.status for answer in answers) == [200, 200, 429, 429]
    assert (await site.store.get_usage("acme")).handlers == 2

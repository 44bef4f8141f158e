"""Rules of the tenant acme on a site, and what looks at them lead to."""

import json
from typing import Any

from functory.alerts.judgement import Moment
from functory.alerts.terms import Terms
from functory.operations.alert_looks import look_at_alerts
from functory.operations.alerts import put_alert
from functory.operations.keyring import principal_of
from functory.operations.principal import Principal
from store.base import Code, JobFilter, JobState
from tests.support.web import Site

ACME = "acme"
FAILS = Terms(type="mail", notify="tell", when="failures", more_than=2, window_s=600)


async def who(site: Site) -> Principal:
    found = await principal_of(site.service, ACME, "test", frozenset())
    assert found is not None
    return found


async def set_rule(site: Site, terms: Terms = FAILS, name: str = "rule") -> None:
    await put_alert(site.service, await who(site), name, terms)


async def look(site: Site, later_s: float = 10, even_since_ms: int = 0) -> None:
    """Later by so much: what waits is remembered for some seconds."""
    site.clock.advance(later_s)
    await look_at_alerts(site.service, ACME, Moment(site.clock.now_ms(), even_since_ms))


async def add(site: Site, count: int = 1, type_name: str = "mail") -> None:
    await site.add(*["x"] * count, path=f"/acme/job/{type_name}/add")
    await site.intake.flush()


async def end(site: Site, code: Code = Code.FAILED, count: int = 1, type_name: str = "mail") -> None:
    await add(site, count, type_name)
    await site.run(count, code, f"acme-{type_name}")


async def told(site: Site, type_name: str = "tell") -> list[dict[str, Any]]:
    """All notifications, in the order in which they were made."""
    now_ms = site.clock.now_ms()
    found = []
    for state in (JobState.WAITING, JobState.ARCHIVED):
        page = await site.store.list_jobs(ACME, JobFilter(state, f"acme-{type_name}"), now_ms=now_ms)
        for record in page.records:
            whole = await site.store.get_job(ACME, record.job.id, now_ms=now_ms)
            assert whole is not None
            found.append(json.loads(whole.job.data))
    return sorted(found, key=lambda it: it["at_ms"])


async def states(site: Site) -> list[tuple[str, str]]:
    return [(it["alert"], it["state"]) for it in await told(site)]

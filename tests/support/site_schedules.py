"""Schedules of a site: added, read and claimed."""

from typing import Any
from urllib.parse import quote

from tests.support.web import Site

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOURLY = "FINISHED, +1 HOUR"
CRON = "0 9 * * *"


async def add(site: Site, repeat: str = HOURLY, job_type: str = "feed", **options: object) -> str:
    query = "".join(f"&{name}={quote(str(value))}" for name, value in options.items())
    (job_id,) = await site.add("x", path=f"/acme/job/{job_type}/add?repeat={quote(repeat)}{query}")
    await site.intake.flush()
    return job_id


async def read(site: Site, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await site.get(f"/acme/job/{job_id}")).json
    return found


async def claim(site: Site) -> Any:
    jobs = await site.store.claim_jobs("acme-feed", 1, owner="a7", lease_ms=60_000, now_ms=site.clock.now_ms())
    return jobs[0] if jobs else None

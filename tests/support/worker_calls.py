"""What a worker asks for over HTTP."""

import json
from typing import Any

from tests.support.web import Site


async def post(site: Site, *payloads: str, type_name: str = "resize") -> list[str]:
    """Jobs of a type that workers serve, in the store."""
    await site.call("PUT", f"/acme/handler/{type_name}", json={"lang": "worker"})
    ids = await site.add(*payloads, path=f"/acme/job/{type_name}/add")
    await site.intake.flush()
    site.workers.changed("acme")
    return ids


async def take(site: Site, **request: Any) -> list[dict[str, Any]]:
    answer = await site.post("/acme/work/take", json={"types": ["resize"], "limit": 10, **request})
    assert answer.status == 200, answer.body
    jobs: list[dict[str, Any]] = answer.json["jobs"]
    return jobs


async def report(site: Site, *reports: dict[str, Any], **more: Any) -> Any:
    body = json.dumps({"reports": reports, **more}).encode()
    answer = await site.post("/acme/work/report", data=body, headers={"Content-Type": "application/json"})
    assert answer.status == 200, answer.body
    return answer.json


def lease(job: dict[str, Any]) -> dict[str, Any]:
    return {"id": job["id"], "token": job["token"]}

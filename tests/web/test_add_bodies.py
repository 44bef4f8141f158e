"""How the body of a POST of jobs is read: by its media type, and up to its limits of size."""

import json

import pytest

from tests.support.web import Site

ADD = "/acme/job/thumb/add"
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
MIB = 1 << 20


async def payloads(site: Site, ids: list[str]) -> list[bytes]:
    await site.intake.flush()
    records = [await site.store.get_job("acme", job_id, now_ms=site.clock.now_ms()) for job_id in ids]
    return [record.job.data for record in records if record is not None]


@pytest.mark.parametrize("size_bytes", [500_001, MIB])
@pytest.mark.parametrize("form", ["object", "array", "ndjson"])
async def test_a_large_job_is_taken_in_every_form(site: Site, size_bytes: int, form: str) -> None:
    job = {"payload": "x" * size_bytes}
    body = json.dumps([job] if form == "array" else job).encode()
    answer = await site.post(ADD, data=body, headers=NDJSON if form == "ndjson" else JSON)
    assert answer.status == 200, answer.body[:300]
    assert await payloads(site, answer.json["ids"]) == [b"x" * size_bytes]

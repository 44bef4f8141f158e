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


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("application/json", [b"1", b"2"]),
        ("Application/JSON", [b"1", b"2"]),
        ("APPLICATION/JSON ;charset=utf-8", [b"1", b"2"]),
        ("application/json5", [b'[{"payload":1},{"payload":2}]']),
        ("application/json-patch+json", [b'[{"payload":1},{"payload":2}]']),
        ("text/plain; of=application/json", [b'[{"payload":1},{"payload":2}]']),
    ],
)
@pytest.mark.parametrize("query", ["", "?ids=yes"])
async def test_the_media_type_is_compared_as_a_whole_and_without_its_case(
    site: Site, media_type: str, expected: list[bytes], query: str
) -> None:
    """Without a query a body of lines goes the short way, and the first request of a key never does."""
    await site.add("the key is verified")
    body = b'[{"payload":1},{"payload":2}]'
    answer = await site.post(ADD + query, data=body, headers={"Content-Type": media_type})
    assert answer.status == 200, answer.body[:300]
    assert await payloads(site, answer.json["ids"]) == expected


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "Application/X-NDJSON", "application/jsonl"])
async def test_ndjson_has_a_job_on_each_line(site: Site, media_type: str) -> None:
    answer = await site.post(ADD, data=b'{"payload":1}\n{"payload":2}\n', headers={"Content-Type": media_type})
    assert await payloads(site, answer.json["ids"]) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("lines", "type_name"),
    [
        ([b"\xff" * 1_000_000] * 13, "thumb"),
        ([b"\0" * MIB] * 15 + [b"\0" * (MIB - 15)], "thumb"),
        ([b"x" * 150] * 100_000, "t" * 127),
    ],
    ids=["not text", "the largest body", "many lines"],
)
async def test_whatever_becomes_longer_in_the_journal_a_body_within_its_limits_is_taken(
    site: Site, lines: list[bytes], type_name: str
) -> None:
    answer = await site.post(f"/acme/job/{type_name}/add?ids=no", data=b"\n".join(lines))
    assert (answer.status, answer.json) == (200, {"count": len(lines)}), answer.body[:300]
    await site.intake.flush()
    usage = await site.store.get_usage("acme")
    assert (usage.jobs, usage.size_bytes) == (len(lines), sum(map(len, lines)))

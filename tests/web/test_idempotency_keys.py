"""Idempotency keys of requests that add jobs: which request is a repeat of which."""

import hashlib

import msgspec
import pytest

from functory.wire.jobs import AddQuery
from tests.support.web import Site

ADD = "/acme/job/thumb/add"
BODY = b'[{"payload":1},{"payload":2}]'
LINES = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(("first", "second", "count"), [(LINES, JSON, 1), (JSON, LINES, 2)])
async def test_a_body_that_is_read_in_another_way_is_another_request(
    site: Site, first: dict[str, str], second: dict[str, str], count: int
) -> None:
    path = ADD + "?idempotency_key=k"
    added = await site.post(path, data=BODY, headers=first)
    assert added.json["count"] == count
    answer = await site.post(path, data=BODY, headers=second)
    assert (answer.status, answer.code) == (422, "idempotency_mismatch")
    assert (await site.post(path, data=BODY, headers=first)).json == added.json
    assert (await site.store.get_usage("acme")).jobs == count


@pytest.mark.parametrize("more", ["&wait_s=0.01", "&ack=store", "&ack=journal", "&ids=yes"])
async def test_how_a_request_is_answered_does_not_make_it_another(site: Site, more: str) -> None:
    path = ADD + "?idempotency_key=k"
    ids = await site.add("a", "b", path=path + "&wait_s=0.02")
    assert await site.add("a", "b", path=path + more) == ids
    assert (await site.post(path + "&ids=no", data=b"a\nb")).json == {"count": 2}
    assert (await site.post(path + "&priority=1000", data=b"a\nb")).code == "idempotency_mismatch"
    assert (await site.store.get_usage("acme")).jobs == 2


@pytest.mark.parametrize("length", [248, 249, 255])
async def test_a_key_may_be_as_long_as_it_says(site: Site, length: int) -> None:
    key, other = "k" * length, "k" * (length - 1) + "l"
    ids = await site.add("a", path=f"{ADD}?idempotency_key={key}")
    assert await site.add("a", path=f"{ADD}?idempotency_key={key}") == ids
    assert (await site.post(f"{ADD}?idempotency_key={key}", data=b"b")).code == "idempotency_mismatch"
    assert await site.add("a", path=f"{ADD}?idempotency_key={other}") != ids
    several = {"jobs": [{"type": "thumb", "payload": "x"}], "idempotency_key": "m" * length}
    answer = await site.post("/acme/jobs", json=several)
    assert answer.status == 200, answer.body


async def test_a_key_longer_than_that_is_refused(site: Site) -> None:
    answer = await site.post(f"{ADD}?idempotency_key={'k' * 256}", data=b"a")
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "idempotency_key")


async def test_what_the_version_before_has_bound_still_counts(site: Site) -> None:
    """It wrote what identifies the whole query and the body, and the first id."""
    query = AddQuery(idempotency_key="k", wait_s=0.01)
    digest = hashlib.sha256(msgspec.json.encode(["thumb", query]) + b"a\nb").hexdigest()
    path, now_ms = ADD + "?idempotency_key=k&wait_s=0.01", site.clock.now_ms()
    ids = await site.add("a", "b", path=path)
    standing = await site.store.get_once("acme", "submit:k", now_ms=now_ms)
    assert standing is not None
    await site.store.delete_once("acme", "submit:k", standing)
    before = f"{digest} {ids[0]}".encode()
    assert await site.store.put_once("acme", "submit:k", before, expires_ms=now_ms + 1000, now_ms=now_ms) == before
    assert await site.add("a", "b", path=path) == ids
    assert (await site.post(path, data=b"b")).code == "idempotency_mismatch"
    assert (await site.store.get_usage("acme")).jobs == 2

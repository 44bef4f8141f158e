"""Idempotency keys of requests that add jobs: which request is a repeat of which."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from functory.operations.keys import create_key
from functory.wire.jobs import AddQuery
from tests.support.service import until
from tests.support.web import T0, Site
from tests.support.webhooks import deliver, set_webhook

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


OF_AN_EARLIER_VERSION = (
    b'{"delay_s":null,"dt":null,"domain":null,"key":null,"retry_after_s":null,"retry_after":"","indexed":false,'
    b'"unique":null,"parent":null,%s}'
)
"""How one says a job, or the options of a body, to which it binds a key."""


async def test_a_key_that_an_earlier_version_has_bound_is_known(site: Site) -> None:
    """It knew fewer options. Whoever was not answered because a daemon was upgraded sends the request once more."""
    options = OF_AN_EARLIER_VERSION % b'"ack":"journal","ids":"yes","idempotency_key":"k","wait_s":0.0'
    job = OF_AN_EARLIER_VERSION % b'"payload":"a","options":{},"type":"thumb"'
    for key, content in (
        (b"k", b'["thumb",%s]a' % options),
        (b"m", b'jobs{"jobs":[%s],"idempotency_key":"m"}' % job),
    ):
        (first,) = site.service.journal.take_ids(1)
        value = f"{hashlib.sha256(content).hexdigest()} {first}".encode()
        await site.store.put_once("acme", f"submit:{key.decode()}", value, expires_ms=2 * T0, now_ms=T0)
        if key == b"k":
            answer = await site.post(f"{ADD}?idempotency_key=k", data=b"a")
        else:
            jobs = [{"type": "thumb", "payload": "a"}]
            answer = await site.post("/acme/jobs", json={"jobs": jobs, "idempotency_key": "m"})
        assert (answer.status, answer.json.get("ids")) == (200, [first]), answer.body


@pytest.mark.parametrize("key", ["webhook:a", "own:webhook:a", "alert:" + 249 * "k", "own:"])
async def test_a_key_may_look_like_one_that_is_made_here(site: Site, key: str) -> None:
    ids = await site.add("a", path=f"{ADD}?idempotency_key={key}")
    assert await site.add("a", path=f"{ADD}?idempotency_key={key}") == ids
    assert (await site.post(f"{ADD}?idempotency_key={key}", data=b"b")).code == "idempotency_mismatch"
    for other in {f"own:{key}"[:255], key.removeprefix("own:")} - {key, ""}:
        assert await site.add("a", path=f"{ADD}?idempotency_key={other}") != ids


@pytest.mark.parametrize("path", ["/acme/job/thumb/add", "/acme/jobs"])
async def test_a_key_of_a_request_is_never_that_of_a_delivery(site: Site, path: str) -> None:
    await set_webhook(site)
    _, key = await create_key(site.service, "test", "acme", scopes=("submit",))
    taken = {"Idempotency-Key": f"webhook:github:{hashlib.sha256(b'd1').hexdigest()}"}
    body = b"x" if path.endswith("add") else b'{"jobs":[{"type":"thumb","payload":"x"}]}'
    first, again = [await site.post(path, key=key, headers=taken, data=body) for _ in range(2)]
    assert first.json == again.json, "it is a key as any other"
    delivered = await deliver(site, X_GitHub_Delivery="d1")
    assert delivered.status == 202, delivered.body
    assert delivered.json["id"] not in first.json["ids"]
    assert (await deliver(site, X_GitHub_Delivery="d1")).json == delivered.json
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 2


async def test_a_key_longer_than_that_is_refused(site: Site) -> None:
    answer = await site.post(f"{ADD}?idempotency_key={'k' * 256}", data=b"a")
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "idempotency_key")


def bound_before(path: str, body: bytes, first: str) -> bytes:
    """What the version before this one binds: what identifies the whole query and the body, and the first id. It
    refuses every repeat for which something else stands there."""
    query = msgspec.convert(dict(parse_qsl(urlsplit(path).query)), AddQuery, strict=False)
    return f"{hashlib.sha256(msgspec.json.encode(['thumb', query]) + body).hexdigest()} {first}".encode()


SHARED = pytest.mark.parametrize(
    ("more", "body", "headers"),
    [("", b"a\nb", LINES), ("&wait_s=0.01", b"a\nb", LINES), ("", BODY, JSON), ("&ack=store", BODY, JSON)],
)


@SHARED
async def test_the_version_before_knows_a_repeat_of_a_request_to_this_one(
    site: Site, more: str, body: bytes, headers: dict[str, str]
) -> None:
    path = f"{ADD}?idempotency_key=k{more}"
    ids = (await site.post(path, data=body, headers=headers)).json["ids"]
    standing = await site.store.get_once("acme", "submit:k", now_ms=site.clock.now_ms())
    assert standing == bound_before(path, body, ids[0])


@SHARED
async def test_this_version_knows_a_repeat_of_a_request_to_the_one_before(
    site: Site, more: str, body: bytes, headers: dict[str, str]
) -> None:
    path, now_ms = f"{ADD}?idempotency_key=k{more}", site.clock.now_ms()
    ids = (await site.post(ADD, data=body, headers=headers)).json["ids"]
    await site.intake.flush()
    before = bound_before(path, body, ids[0])
    assert await site.store.put_once("acme", "submit:k", before, expires_ms=now_ms + 1000, now_ms=now_ms) == before
    assert (await site.post(path, data=body, headers=headers)).json["ids"] == ids
    assert (await site.post(path, data=body + b" ", headers=headers)).code == "idempotency_mismatch"
    assert (await site.store.get_usage("acme")).jobs == 2


@pytest.mark.parametrize("headers", [LINES, JSON])
async def test_a_refused_request_leaves_nothing_of_its_key(site: Site, headers: dict[str, str]) -> None:
    body = b'[{"payload":"a","parent":"20270115T080000000Z-a7-00ffff"}]'
    path = f"{ADD}?idempotency_key=k" + ("&parent=20270115T080000000Z-a7-00ffff" if headers is LINES else "")
    assert (await site.post(path, data=body, headers=headers)).status == 404
    assert len(await site.add("a", path=f"{ADD}?idempotency_key=k")) == 1


async def pieces(text: bytes) -> AsyncIterator[bytes]:
    """A body whose length nobody says before: it takes room for the longest."""
    yield text


@pytest.mark.parametrize("more", ["", "&idempotency_key=k{}"])
async def test_a_body_takes_no_room_while_its_jobs_are_waited_for(site: Site, more: str) -> None:
    paths = [f"{ADD}?wait_s=60{more.format(number)}" for number in range(3)]
    posting = [asyncio.ensure_future(site.post(path, data=pieces(b"x"))) for path in paths]

    async def have_come() -> bool:
        await site.intake.flush()
        return (await site.store.get_usage("acme")).jobs == len(posting)

    await until(have_come)
    for job_id in await site.run():
        site.waiters.tell(job_id)
    assert [answer.json["jobs"][0]["code"] for answer in await asyncio.gather(*posting)] == ["ok"] * 3


@pytest.mark.parametrize(("body", "headers"), [(b"a\nb", LINES), (BODY, JSON)])
async def test_the_header_is_the_same_key(site: Site, body: bytes, headers: dict[str, str]) -> None:
    await site.get("/acme/results")  # the key is known from now on: a plain POST would take the fast path
    keyed = headers | {"Idempotency-Key": "order-17"}
    added = await site.post(ADD, data=body, headers=keyed)
    assert added.status == 200, added.body
    assert (await site.post(ADD, data=body, headers=keyed)).json == added.json
    assert (await site.post(f"{ADD}?idempotency_key=order-17", data=body, headers=headers)).json == added.json
    assert (await site.post(f"{ADD}?idempotency_key=order-17", data=body, headers=keyed)).json == added.json
    assert (await site.post(ADD, data=b'{"payload":3}', headers=keyed)).code == "idempotency_mismatch"
    assert (await site.store.get_usage("acme")).jobs == len(added.json["ids"])


async def test_the_header_is_the_key_of_jobs_of_several_types(site: Site) -> None:
    keyed, jobs = {"Idempotency-Key": "order-17"}, {"jobs": [{"type": "thumb", "payload": "x"}]}
    added = await site.post("/acme/jobs", json=jobs, headers=keyed)
    assert added.status == 200, added.body
    assert (await site.post("/acme/jobs", json=jobs, headers=keyed)).json == added.json
    assert (await site.post("/acme/jobs", json=jobs | {"idempotency_key": "order-17"})).json == added.json
    assert (await site.store.get_usage("acme")).jobs == 1


@pytest.mark.parametrize(
    ("path", "how", "other"),
    [
        ("/jobber/queue", {"json": {"type": "thumb", "payload": "a\nb"}}, {"json": {"type": "thumb", "payload": "c"}}),
        ("/add?jobtype=thumb", {"data": b"a\nb"}, {"data": b"c"}),
    ],
)
async def test_paths_of_earlier_systems_take_the_header(
    site: Site, path: str, how: dict[str, Any], other: dict[str, Any]
) -> None:
    keyed = {"Idempotency-Key": "order-17"}
    added = await site.post(path, headers=keyed, **how)
    assert added.status in {200, 201}, added.body
    assert (await site.post(path, headers=keyed, **how)).json == added.json
    assert (await site.post(path, headers=keyed, **other)).code == "idempotency_mismatch"
    assert (await site.store.get_usage("acme")).jobs == len(added.json.get("ids", "1"))
    assert (await site.post(path, **how)).json != added.json, "without a key, these are new jobs"


@pytest.mark.parametrize(
    ("value", "word"), [(b"", "idempotency_key"), (b"k" * 256, "idempotency_key"), (b"\xe9", "text"), (b"other", "two")]
)
async def test_a_header_that_is_no_key_or_another_one_is_refused(site: Site, value: bytes, word: str) -> None:
    head = f"POST {ADD}?idempotency_key=mine HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.keys['acme']}\r\n"
    rest = b"Content-Length: 1\r\nConnection: close\r\n\r\nx"
    answer = await site.raw(head.encode() + b"Idempotency-Key: " + value + b"\r\n" + rest)
    assert answer.startswith(b"HTTP/1.1 422 ")
    assert word.encode() in answer

"""What others post to a webhook: it becomes a job once, of those alone who prove who they are."""

import asyncio
import gzip
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from functory.operations.known_webhooks import KnownWebhooks
from functory.operations.verified_keys import GRACE_S, LIFE_S
from functory.web.api.deliveries import WEBHOOK_BODY_BYTES
from functory.web.app import WEB
from functory.web.http import body_room
from store.base import Code, JobFilter, JobState
from store.errors import StoreUnavailable
from tests.support.service import until
from tests.support.web import Answer, Site
from tests.support.webhooks import IN, KEY, deliver, pieces, set_open, set_webhook
from vocabulary.sizes import MIB


async def away(*_: object, **__: object) -> None:
    raise StoreUnavailable("away")


async def payloads(site: Site, type_name: str = "build") -> list[bytes]:
    await site.intake.flush()
    now_ms = site.clock.now_ms()
    jobs = await site.store.claim_jobs(f"acme-{type_name}", 100, owner="a7", lease_ms=30_000, now_ms=now_ms)
    return [job.data for job in jobs]


async def test_a_delivery_becomes_a_job(site: Site) -> None:
    await set_webhook(site)
    answer = await deliver(site, b'{\n  "ref": "main"\n}\n')
    assert answer.status == 202
    shown = (await site.get(f"/acme/job/{answer.json['id']}")).json
    assert (shown["type"], shown["payload"]) == ("build", '{\n  "ref": "main"\n}\n')
    assert await payloads(site) == [b'{\n  "ref": "main"\n}\n'], "one job, although it has several lines"


async def test_who_cannot_prove_who_they_are_adds_nothing(site: Site) -> None:
    await set_webhook(site)
    for answer in (await deliver(site, key="another"), await site.post(IN, key=None, data=b"{}"), await site.post(IN)):
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert b"HOOK" not in answer.body
        assert KEY.encode() not in answer.body
    assert await payloads(site) == []


async def test_a_delivery_that_is_sent_again_is_the_same_job(site: Site) -> None:
    await set_webhook(site, payload="request")
    first = await deliver(site, X_GitHub_Delivery="d1", Content_Type="application/json")
    again = await deliver(site, b'{"made": "anew"}', X_GitHub_Delivery="d1", X_Attempt="2")
    other = await deliver(site, X_GitHub_Delivery="d2")
    assert first.status == again.status == 202
    assert first.json == again.json != other.json
    told = [json.loads(payload) for payload in await payloads(site)]
    assert [it["headers"]["x-github-delivery"] for it in told] == ["d1", "d2"]
    assert told[0]["json"] == {"ref": "main"}


async def test_the_same_delivery_to_two_webhooks_is_two_jobs(site: Site) -> None:
    await set_webhook(site)
    await set_webhook(site, "mirror", verify="none", secrets=[], delivery_header="X-GitHub-Delivery")
    await deliver(site, X_GitHub_Delivery="d1")
    answer = await site.post("/acme/in/mirror", key=None, data=b"x", headers={"X-GitHub-Delivery": "d1"})
    assert answer.status == 202
    assert len(await payloads(site)) == 2


async def test_slack_is_read_its_challenge_back_if_it_is_slack(site: Site) -> None:
    await set_webhook(site, verify="slack")
    body = b'{"type": "url_verification", "challenge": "3eZb"}'
    time = f"{site.clock.now_ms() // 1000}"
    made = hmac.new(KEY.encode(), f"v0:{time}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": time, "X-Slack-Signature": f"v0={made}"}
    assert (await site.post(IN, key=None, data=body, headers=headers)).json == {"challenge": "3eZb"}
    headers["X-Slack-Signature"] = "v0=" + "0" * 64
    assert (await site.post(IN, key=None, data=body, headers=headers)).status == 401
    assert await payloads(site) == []


@pytest.mark.parametrize("path", ["/acme/in/nothing", "/nobody/in/github", "/acme/in/a%7Cb", "/other/in/github"])
async def test_where_there_is_no_webhook_nobody_learns_more(site: Site, path: str) -> None:
    await set_webhook(site)
    answer = await site.post(path, key=None, data=b"x")
    assert (answer.status, answer.json["error"]["message"]) == (404, "there is no webhook at this address")


async def test_a_change_holds_at_once(site: Site) -> None:
    assert (await deliver(site)).status == 404
    await set_webhook(site)
    assert (await deliver(site)).status == 202
    await site.call("PUT", "/acme/secret/HOOK", json={"value": "a-new-key"})
    assert (await deliver(site)).status == 401
    assert (await deliver(site, key="a-new-key")).status == 202
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": True})
    assert (await deliver(site, key="a-new-key")).code == "tenant_suspended"
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": False})
    await site.call("DELETE", "/acme/webhook/github")
    assert (await deliver(site, key="a-new-key")).status == 404


async def test_what_changes_while_a_body_comes_holds_for_it(site: Site) -> None:
    await set_open(site)

    async def slowly() -> AsyncIterator[bytes]:
        yield b"one"
        await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": True})
        yield b"two"

    assert (await site.post(IN, key=None, data=slowly())).code == "tenant_suspended"


async def test_a_change_elsewhere_holds_after_a_moment(site: Site) -> None:
    await set_webhook(site)
    assert (await deliver(site)).status == 202
    await site.store.delete_webhook("acme", "github")  # as another daemon does
    assert (await deliver(site)).status == 202
    site.clock.advance(LIFE_S)
    assert (await deliver(site)).status == 404


async def test_without_its_secret_a_webhook_takes_nothing_and_says_so(site: Site) -> None:
    await set_webhook(site)
    await site.call("DELETE", "/acme/secret/HOOK")
    answer = await deliver(site)
    assert (answer.status, answer.code) == (503, "not_ready_yet"), "who sends it tries again"
    assert "secret of this webhook is not set" in answer.json["error"]["message"]
    assert answer.headers["Retry-After"]
    assert await payloads(site) == []


async def test_while_the_store_is_away_deliveries_are_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_webhook(site)
    await deliver(site)
    with monkeypatch.context() as patch:
        patch.setattr(site.store, "get_webhook", away)
        site.clock.advance(LIFE_S)
        assert (await deliver(site, b"meanwhile")).status == 202
        assert (await site.post("/acme/in/another", key=None, data=b"x")).code == "not_ready_yet"
        site.clock.advance(GRACE_S)
        assert (await deliver(site)).code == "not_ready_yet"
    assert b"meanwhile" in await payloads(site)


async def test_not_every_delivery_waits_for_a_store_that_is_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def gives_up(_: str, name: str) -> None:
        asked.append(name)
        site.clock.advance(LIFE_S)
        raise StoreUnavailable("away")

    await set_webhook(site)
    await deliver(site)
    monkeypatch.setattr(site.store, "get_webhook", gives_up)
    site.clock.advance(LIFE_S)
    assert [(await deliver(site)).status for _ in range(3)] == [202, 202, 202]
    assert asked == ["github"]
    site.clock.advance(LIFE_S)
    assert (await deliver(site)).status == 202
    assert asked == ["github", "github"]


async def test_many_strangers_ask_the_store_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    get_webhook = site.store.get_webhook

    async def counted(tenant: str, name: str) -> Any:
        asked.append(name)
        return await get_webhook(tenant, name)

    monkeypatch.setattr(site.store, "get_webhook", counted)
    answers = await asyncio.gather(*(site.post("/acme/in/nothing", key=None, data=b"x") for _ in range(20)))
    answers.append(await site.post("/acme/in/nothing", key=None, data=b"x"))
    assert {answer.status for answer in answers} == {404}
    assert asked == ["nothing"]


def test_only_so_many_are_remembered() -> None:
    known = KnownWebhooks()
    for number in range(10_000):
        known.keep("acme", f"{number}", None, 0, 0, 0)
    assert len(known._absent) <= 2000
    assert known.recent("acme", "9999", 0, 0) is None
    with pytest.raises(KeyError):
        known.recent("acme", "0", 0, 0)


async def test_addresses_that_strangers_guess_drive_no_webhook_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_webhook(site)
    assert (await deliver(site)).status == 202
    for number in range(2500):
        site.service.known_webhooks.keep(
            "acme", f"{number}", None, site.clock.now_ms(), 0, site.service.known_webhooks.changes
        )
    monkeypatch.setattr(site.store, "get_webhook", away)
    site.clock.advance(LIFE_S)
    assert (await deliver(site)).status == 202


@pytest.mark.parametrize("what", ["webhook", "secret", "tenant"])
async def test_what_was_changed_here_is_not_as_it_was_when_the_store_goes_away(
    site: Site, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    await set_webhook(site)
    assert (await deliver(site)).status == 202
    if what == "tenant":
        await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": True})
    else:
        await site.call("DELETE", f"/acme/{what}/{'github' if what == 'webhook' else 'HOOK'}")
    monkeypatch.setattr(site.store, "get_webhook", away)
    assert (await deliver(site)).code == "not_ready_yet"


async def test_an_answer_of_before_a_change_is_not_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_webhook(site)
    asked, let_go, get_webhook = asyncio.Event(), asyncio.Event(), site.store.get_webhook

    async def held(tenant: str, name: str) -> Any:
        found = await get_webhook(tenant, name)
        asked.set()
        await let_go.wait()
        return found

    monkeypatch.setattr(site.store, "get_webhook", held)
    posting = asyncio.ensure_future(deliver(site))
    await asked.wait()
    await site.call("DELETE", "/acme/webhook/github")
    let_go.set()
    assert (await posting).status == 404


async def test_a_body_that_is_too_long_is_refused(site: Site) -> None:
    await set_open(site)
    answer = await site.post(IN, key=None, data=b"x" * (WEBHOOK_BODY_BYTES + 1))
    assert (answer.status, answer.code) == (413, "request_too_large")
    answer = await site.post(IN, key=None, data=b"x" * (3 << 19))
    assert (answer.status, answer.code) == (413, "limit_exceeded"), "longer than a payload may be"
    assert await payloads(site) == []


async def test_who_says_much_and_sends_little_keeps_nobody_out(site: Site) -> None:
    await set_open(site)
    assert (await site.post(IN, key=None, data=b"x")).status == 202  # it is known, and nobody waits for the store
    head = f"POST {IN} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    async with AsyncExitStack() as left, asyncio.timeout(20):
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port)
            left.callback(writer.close)
            writer.write(head.encode())
            assert b" 100 " in await reader.readline()
        assert (await site.post(IN, key=None, data=pieces(b"x" * 400_000, b"x" * 400_000))).status == 202


@pytest.mark.parametrize("naming", ["", "X-Id"])
async def test_a_large_body_takes_no_room_while_a_result_is_waited_for(site: Site, naming: str) -> None:
    await set_open(site, answer="result", wait_s=60, delivery_header=naming)
    posting = [
        asyncio.ensure_future(site.post(IN, key=None, data=pieces(b"x" * 600_000), headers={"X-Id": f"{number}"}))
        for number in range(5)
    ]

    async def have_come() -> bool:
        await site.intake.flush()
        where = JobFilter(JobState.WAITING, "acme-build")
        return len((await site.store.list_jobs("acme", where, now_ms=site.clock.now_ms())).records) == len(posting)

    await until(have_come)
    for job_id in await site.run(jobtype="acme-build"):
        site.waiters.tell(job_id)
    assert {answer.status for answer in await asyncio.gather(*posting)} == {200}


async def test_who_finds_no_room_is_told_to_send_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_open(site)
    monkeypatch.setattr(body_room, "_LONGEST_WAIT_S", 0.0)
    room = site.listener._app[WEB].webhook_bodies
    async with room.of("acme", 4 * MIB):
        answer = await site.post(IN, key=None, data=pieces(b"x" * 600_000))
        assert (answer.status, answer.code) == (503, "not_ready_yet")
        assert (await site.post(IN, key=None, data=pieces(b"small"))).status == 202
        packed = gzip.compress(bytes(range(256)))  # which could become large
        assert (await site.post(IN, key=None, data=packed, headers={"Content-Encoding": "gzip"})).status == 202
    assert (await site.post(IN, key=None, data=pieces(b"x" * 600_000))).status == 202


async def test_who_has_proved_who_it_is_finds_room_beside_strangers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All come from one address here, so the stranger's body stands for any other."""
    await set_webhook(site)
    monkeypatch.setattr(body_room, "_LONGEST_WAIT_S", 0.0)
    room = site.listener._app[WEB].webhook_bodies
    async with room.of("acme", 4 * MIB):
        assert (await deliver(site, b"x" * 600_000)).status == 503
        assert (await deliver(site, b"small", key="another")).status == 401
        assert (await deliver(site, b"x" * 600_000)).status == 503, "to try is no proof"
        assert (await deliver(site, b"small")).status == 202
        assert (await deliver(site, b"x" * 600_000)).status == 202
        await set_webhook(site, "open", verify="none", secrets=[])
        assert (await site.post("/acme/in/open", key=None, data=b"small")).status == 202
        answer = await site.post("/acme/in/open", key=None, data=pieces(b"x" * 600_000))
        assert answer.status == 503, "who need prove nothing has not"
    async with site.listener._app[WEB].proved_bodies.of("acme", 4 * MIB):
        assert (await deliver(site, b"x" * 600_000)).status == 503, "there is an end to it as well"


async def test_what_is_signed_by_a_long_body_is_checked_as_well(site: Site) -> None:
    await set_webhook(site)
    body = b"x" * 300_000
    assert (await deliver(site, body, key="another")).status == 401
    assert (await deliver(site, body)).status == 202
    assert await payloads(site) == [body]


async def test_deliveries_are_charged_to_their_webhook(site: Site) -> None:
    await set_webhook(site)
    limits = {"requests_per_s": 1, "requests_burst": 3}
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
    answers = [await deliver(site, key="another") for _ in range(4)]
    assert [answer.status for answer in answers] == [401, 401, 401, 429]
    assert (await site.get("/acme/scoreboard")).status == 200, "the tenant's own requests are not"


async def test_quotas_hold(site: Site) -> None:
    await set_open(site)
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"max_jobs": 2}})
    answers = [await site.post(IN, key=None, data=b"x") for _ in range(3)]
    assert [answer.status for answer in answers] == [202, 202, 429]


async def test_get_is_taken_where_it_is_said(site: Site) -> None:
    await set_open(site, payload="request")
    refused = await site.get(IN, key=None)
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    await set_open(site, payload="request", takes_get=True)
    assert (await site.get(f"{IN}?name=Ada&name=Grace&x=", key=None)).status == 202
    (told,) = [json.loads(payload) for payload in await payloads(site)]
    assert (told["method"], told["query"], told["body"]) == ("GET", {"name": ["Ada", "Grace"], "x": ""}, "")


# Answers with the result


async def ended(site: Site, code: Code = Code.OK, **outcome: Any) -> Answer:
    """Post, have the job end, and see the answer."""
    posting = asyncio.ensure_future(site.post(IN, key=None, data=b"x"))
    await site.waiters.waiting.wait()
    (job_id,) = await until(lambda: site.run(code=code, jobtype="acme-build", **outcome))
    site.waiters.tell(job_id)
    return await posting


async def test_the_result_is_the_answer(site: Site) -> None:
    await set_open(site, answer="result")
    answer = await ended(site, result=b'{"text": "hello"}')
    assert (answer.status, answer.json) == (200, {"text": "hello"})
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("result", [b"<script>alert(1)</script>", b'<?xml version="1.0"?><Response/>'])
async def test_a_result_acts_for_nobody(site: Site, result: bytes) -> None:
    await set_open(site, answer="result", result_type="text/xml")
    answer = await ended(site, result=result)
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, result, "text/xml; charset=utf-8")
    assert answer.headers["Content-Security-Policy"].endswith("sandbox")


async def test_no_result_is_an_empty_answer(site: Site) -> None:
    await set_open(site, answer="result")
    answer = await ended(site, result=None)
    assert (answer.status, answer.body) == (204, b"")


async def test_a_large_result_is_the_answer_as_well(site: Site) -> None:
    await set_open(site, answer="result")
    answer = await ended(site, result=b"x" * 700_000)
    assert (answer.status, answer.body) == (200, b"x" * 700_000)


async def test_of_a_failure_others_learn_only_that_it_was_one(site: Site) -> None:
    await set_open(site, answer="result")
    answer = await ended(site, Code.FAILED, exitcode=400, result=b"the password of the database is...")
    assert (answer.status, answer.code) == (502, "job_failed")
    assert b"password" not in answer.body


async def test_a_job_that_takes_longer_is_answered_with_its_id(site: Site) -> None:
    await set_open(site, answer="result", wait_s=0.1)
    answer = await site.post(IN, key=None, data=b"x")
    assert answer.status == 202
    assert (await site.get(f"/acme/job/{answer.json['id']}")).json["type"] == "build"

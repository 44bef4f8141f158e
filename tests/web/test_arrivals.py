"""What came to a webhook, by HTTP, on the page, in the terminal and in the log: who set it up sees why it does not
work, and strangers cost little and say nothing unescaped."""

import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from functory.operations.keys import create_key
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from functory.web.api.deliveries import WEBHOOK_BODY_BYTES
from functory.web.app import WEB
from functory.web.http import body_room
from functory.web.pages.webhooks import MEANS
from functory.webhooks.arrivals import OUTCOMES
from store.errors import StoreUnavailable
from tests.support.pages import visitor
from tests.support.terminal import Terminal
from tests.support.web import SYSID, T0, Answer, Site
from tests.support.webhooks import IN, KEY, deliver, pieces, set_open, set_webhook
from vocabulary.sizes import MIB

WEBHOOK = "/acme/webhook/github"
PAGE = "/ui/t/acme/webhooks/github"
HOSTILE = "<b>\x1b[31m\u202e'\"&"


async def came(site: Site, path: str = WEBHOOK, key: str = "acme") -> Any:
    return (await site.get(path, key=key)).json["arrivals"]


async def without_header(site: Site) -> Answer:
    return await site.post(IN, key=None, data=b"{}")


async def another_key(site: Site) -> Answer:
    return await deliver(site, key="another")


async def too_old(site: Site) -> Answer:
    await set_webhook(site, verify="stripe")
    return await site.post(IN, key=None, data=b"{}", headers=stripe(site.clock.now_ms() // 1000 - 301))


async def no_token(site: Site) -> Answer:
    await set_webhook(site, verify="gitlab")
    return await site.post(IN, key=None, data=b"{}")


async def wrong_token(site: Site) -> Answer:
    await set_webhook(site, verify="token")
    return await site.post(f"{IN}?token=x", key=None, data=b"{}")


async def no_secret(site: Site) -> Answer:
    await site.call("DELETE", "/acme/secret/HOOK")
    return await deliver(site)


async def by_get(site: Site) -> Answer:
    return await site.get(IN, key=None)


async def too_large(site: Site) -> Answer:
    return await deliver(site, b"x" * (WEBHOOK_BODY_BYTES + 1))


async def larger_than_a_payload(site: Site) -> Answer:
    return await deliver(site, b"x" * (3 << 19))


async def unreadable(site: Site) -> Answer:
    return await deliver(site, Content_Encoding="br")


async def no_room(site: Site) -> Answer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_room, "_LONGEST_WAIT_S", 0.0)
        async with site.listener._app[WEB].webhook_bodies.of("acme", 4 * MIB):
            return await site.post(IN, key=None, data=pieces(b"x" * 600_000))


async def too_often(site: Site) -> Answer:
    limits = {"requests_per_s": 1, "requests_burst": 1}
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
    await deliver(site)
    answer = await deliver(site)
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {}})
    return answer


async def too_many(site: Site) -> Answer:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"max_jobs": 1}})
    await deliver(site)
    return await deliver(site)


async def suspended(site: Site) -> Answer:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": True})
    return await deliver(site)


async def store_away(site: Site) -> Answer:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site.store, "add_jobs_once", away)
        return await deliver(site, X_GitHub_Delivery="d1")


async def our_fault(site: Site) -> Answer:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site.store, "add_jobs_once", broken)
        return await deliver(site, X_GitHub_Delivery="d1")


def stripe(time_s: int, body: bytes = b"{}") -> dict[str, str]:
    made = hmac.new(KEY.encode(), f"{time_s}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={time_s},v1={made}"}


REFUSED: list[tuple[Callable[[Site], Awaitable[Answer]], int, str]] = [
    (without_header, 401, "signature_missing"),
    (another_key, 401, "signature_wrong"),
    (too_old, 401, "signature_too_old"),
    (no_token, 401, "token_missing"),
    (wrong_token, 401, "token_wrong"),
    (no_secret, 503, "secret_not_set"),
    (by_get, 405, "method_not_allowed"),
    (too_large, 413, "too_large"),
    (larger_than_a_payload, 413, "too_large"),
    (unreadable, 400, "unreadable"),
    (no_room, 503, "busy"),
    (too_often, 429, "rate_limited"),
    (too_many, 429, "over_quota"),
    (suspended, 403, "tenant_suspended"),
    (store_away, 503, "unavailable"),
    (our_fault, 500, "failed"),
]


@pytest.mark.parametrize(("send", "status", "reason"), REFUSED, ids=[send.__name__ for send, *_ in REFUSED])
async def test_what_is_refused_is_noted_with_the_reason(
    site: Site, send: Callable[[Site], Awaitable[Answer]], status: int, reason: str
) -> None:
    await set_webhook(site)
    assert (await send(site)).status == status
    found = await came(site)
    (refusal,) = found["refusals"]
    assert (refusal["reason"], refusal["times"], refusal["sender"]) == (reason, 1, "127.0.0.1")
    assert found["counts"] == Counter({reason: 1}) + Counter(accepted=len(found["deliveries"]))
    assert await came(site, "/acme/webhook/github") == found, "to look changes nothing"


def test_every_reason_is_in_words() -> None:
    assert {*MEANS} | {"accepted", "repeated", "challenge"} == {*OUTCOMES}
    assert {reason for *_, reason in REFUSED} | {"too_slow"} == {*MEANS}


async def test_what_is_taken_is_noted_with_its_job(site: Site) -> None:
    await set_webhook(site)
    site.clock.advance(60)
    first = await deliver(site, b"first", X_GitHub_Delivery="d1")
    again = await deliver(site, b"again!", X_GitHub_Delivery="d1")
    other = await deliver(site, b"other")
    assert first.json == again.json
    shown = await came(site)
    row = {"at_ms": T0 + 60_000, "sender": "127.0.0.1"}
    assert shown == {
        "daemon": SYSID,
        "since_ms": T0,
        "counts": {"accepted": 2, "repeated": 1},
        "deliveries": [
            row | {"outcome": "accepted", "job": other.json["id"], "delivery": "", "size_bytes": 5},
            row | {"outcome": "repeated", "job": first.json["id"], "delivery": "d1", "size_bytes": 6},
            row | {"outcome": "accepted", "job": first.json["id"], "delivery": "d1", "size_bytes": 5},
        ],
        "refusals": [],
    }


async def test_the_challenge_of_slack_is_noted_and_is_no_job(site: Site) -> None:
    await set_webhook(site, verify="slack")
    body, time = b'{"type": "url_verification", "challenge": "3eZb"}', f"{site.clock.now_ms() // 1000}"
    made = hmac.new(KEY.encode(), f"v0:{time}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": time, "X-Slack-Signature": f"v0={made}"}
    assert (await site.post(IN, key=None, data=body, headers=headers)).status == 200
    (row,) = (await came(site))["deliveries"]
    assert (row["outcome"], row["job"]) == ("challenge", None)


async def test_a_delivery_has_the_name_that_the_webhook_looks_at(site: Site) -> None:
    await set_webhook(site, verify="stripe")
    headers = stripe(site.clock.now_ms() // 1000, b'{"id": "evt_1"}')
    assert (await site.post(IN, key=None, data=b'{"id": "evt_1"}', headers=headers)).status == 202
    assert (await came(site))["deliveries"][0]["delivery"] == "evt_1"
    await set_webhook(site, verify="token", delivery_header="X-Id")
    assert (await site.post(f"{IN}?token={KEY}", key=None, data=b"", headers={"X-Id": "mine"})).status == 202
    assert (await came(site))["deliveries"][0]["delivery"] == "mine"


async def test_what_is_refused_says_which_delivery_it_was(site: Site) -> None:
    await set_webhook(site)
    await deliver(site, b"12345", key="another", X_GitHub_Delivery="d1")
    await deliver(site, b"123456", key="another", X_GitHub_Delivery="d2")
    (refusal,) = (await came(site))["refusals"]
    assert refusal == {
        "at_ms": T0,
        "reason": "signature_wrong",
        "times": 2,
        "sender": "127.0.0.1",
        "delivery": "d2",
        "size_bytes": 6,
    }


async def test_nothing_is_written_for_what_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_webhook(site)
    await deliver(site)
    lines, calls = site.service.journal.stats().lines_written, []
    for verb in ("put_note", "put_once", "append_audit", "put_webhook", "add_jobs", "add_jobs_once"):
        monkeypatch.setattr(site.store, verb, lambda *_, verb=verb, **__: calls.append(verb))
    for _ in range(20):
        assert (await deliver(site, key="another")).status == 401
    assert (site.service.journal.stats().lines_written, calls) == (lines, [])
    assert (await came(site))["counts"]["signature_wrong"] == 20


async def test_a_flood_of_refusals_is_a_line_a_minute(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    await set_webhook(site)
    caplog.set_level(logging.INFO)

    def told() -> list[Any]:
        return [vars(it) for it in caplog.records if it.name == "functory.web"]

    for _ in range(20):
        await deliver(site, key="another")
    site.clock.advance(60)
    await without_header(site)
    assert [(it["msg"], it["reason"], it["count"]) for it in told()] == [
        ("webhook.refused", "signature_wrong", 1),
        ("webhook.refused", "signature_missing", 20),
    ]
    assert (told()[0]["tenant"], told()[0]["webhook"], told()[0]["client"]) == ("acme", "github", "127.0.0.1")


async def test_an_address_that_is_none_is_noted_nowhere(site: Site) -> None:
    for path in ("/acme/in/nothing", "/nobody/in/github"):
        assert (await site.post(path, key=None, data=b"x")).status == 404
    assert site.service.arrivals._logs == {}


async def test_a_new_tenant_of_the_name_sees_nothing_of_the_one_before(site: Site) -> None:
    await set_webhook(site)
    await deliver(site, key="another")
    while (await site.call("DELETE", "/admin/tenants/acme", key="operator")).json["more"]:
        pass
    site.clock.advance(1)
    await create_tenant(site.service, "test", "acme", 1, TenantLimits())
    _, site.keys["acme"] = await create_key(site.service, "test", "acme")
    await set_webhook(site)
    assert (await came(site))["counts"] == {}


async def test_each_tenant_sees_its_own_and_a_new_webhook_of_the_name_begins_anew(site: Site) -> None:
    await set_webhook(site)
    await deliver(site, key="another")
    await site.call("DELETE", WEBHOOK)
    await set_webhook(site)
    assert (await came(site))["counts"] == {}
    await deliver(site)
    await site.call("PUT", "/other/webhook/github", key="other", json={"type": "build", "verify": "none"})
    assert (await came(site, "/other/webhook/github", "other"))["counts"] == {}


async def test_metrics_have_the_outcomes_of_all(site: Site) -> None:
    await set_webhook(site)
    await deliver(site, key="another")
    text = (await site.get("/metrics", key="operator")).body.decode()
    assert 'functory_webhook_arrivals_total{outcome="signature_wrong"} 1' in text
    assert 'functory_webhook_arrivals_total{outcome="accepted"} 0' in text


# Shown to people


async def test_the_page_shows_what_came_and_what_to_do(site: Site) -> None:
    await set_webhook(site)
    async with visitor(site, "acme") as visit:
        assert "Nothing came yet" in (await visit.get(PAGE)).text
        job_id = (await deliver(site, X_GitHub_Delivery="d1")).json["id"]
        await deliver(site, key="another", X_GitHub_Delivery=HOSTILE.replace("\x1b", ""))
        page = (await visit.get(PAGE)).text
        for shown in (
            "<b>1</b> accepted, <b>1</b> signature wrong",
            f'<a href="/ui/t/acme/job/{job_id}">',
            "<bdi>d1</bdi>",
            MEANS["signature_wrong"],
            "as daemon a7 has seen it",
        ):
            assert shown in page, shown
        assert "<b>[" not in page
        assert "\u202e" not in page
        assert "&lt;b&gt;[31m" in page


async def test_the_terminal_shows_what_came(site: Site, terminal: Terminal) -> None:
    await set_webhook(site)
    assert "nothing came" in await terminal.run("webhook", "get", "github")
    job_id = (await deliver(site, X_GitHub_Delivery="d1")).json["id"]
    await deliver(site, key="another", X_GitHub_Delivery="\u202ed2")
    lines = (await terminal.run("webhook", "get", "github")).splitlines()
    assert "as daemon a7 has seen it: 1 accepted, 1 signature wrong" in lines[7]
    assert [line.split()[-5:] for line in lines if job_id in line] == [["accepted", job_id, "15", "127.0.0.1", "d1"]]
    (refused,) = (line for line in lines if "d2" in line)
    assert refused.split()[-6:-1] == ["signature", "wrong", "1", "15", "127.0.0.1"]
    assert refused.isprintable()


async def test_the_terminal_shows_every_setting(site: Site, terminal: Terminal) -> None:
    await set_webhook(
        site,
        verify="hmac",
        header="X-Sign",
        prefix="v1=",
        delivery_header="X-Id",
        answer="result",
        wait_s=3.5,
        result_type="text/xml",
    )
    lines = (await terminal.run("webhook", "get", "github")).splitlines()
    assert lines[1:5] == [
        "takes POST; each becomes a job of build, whose payload is the body",
        "verified by hmac in X-Sign (sha256, hex, after 'v1=') with HOOK",
        "a delivery is named by X-Id: one that is sent again within a day is the same job",
        "answers with the job's result, within 3.5 s, as text/xml",
    ]
    await set_open(site, payload="request", takes_get=True)
    lines = (await terminal.run("webhook", "get", "github")).splitlines()
    assert lines[1:5] == [
        "takes POST and GET; each becomes a job of build, whose payload is the request",
        "verified by nothing: anybody may post",
        "nothing names a delivery: one that is sent again is another job",
        "answers with the job's id",
    ]
    await set_webhook(site, verify="stripe")
    assert "a delivery is named by the id in its body: " in await terminal.run("webhook", "get", "github")


async def test_the_page_shows_every_setting(site: Site) -> None:
    await set_webhook(site, verify="hmac", header="X-Sign", prefix="v1=", answer="result", result_type="text/xml")
    async with visitor(site, "acme") as visit:
        page = (await visit.get(PAGE)).text
        assert "HMAC in X-Sign (sha256, hex, after &#39;v1=&#39;) with" in page
        assert "<dd>the job&#39;s result, within 10 s, as text/xml</dd><dt>Takes</dt><dd>POST</dd>" in page
        await set_open(site, payload="request", takes_get=True)
        assert "<dt>Takes</dt><dd>POST and GET</dd>" in (await visit.get(PAGE)).text

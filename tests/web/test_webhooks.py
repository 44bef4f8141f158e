"""Webhooks over HTTP: set, list, delete; who may, and what is refused. test_deliveries.py has what others post."""

import asyncio
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from functory.cli.webhooks import VERIFY
from functory.operations.keys import create_key
from functory.operations.webhooks import MAX_WEBHOOKS
from functory.web.http.settings import WebSettings
from functory.web.pages.webhooks import VERIFY as WORDS
from functory.wire.webhooks import Verify
from store.base import WebhookRecord
from tests.support.terminal import Terminal
from tests.support.web import T0, Site, open_site

WEBHOOK = "/acme/webhook/github"
SETTINGS = {"type": "build", "verify": "github", "secrets": ["HOOK"]}


@pytest.fixture(autouse=True)
async def secret(site: Site) -> None:
    await site.call("PUT", "/acme/secret/HOOK", json={"value": "the-key-of-both"})


async def set_webhook(site: Site, path: str = WEBHOOK, key: str = "acme", **changes: Any) -> Any:
    answer = await site.call("PUT", path, key=key, json=SETTINGS | changes)
    assert answer.status == 200, answer.body
    return answer.json


def test_everybody_knows_the_same_schemes() -> None:
    assert set(VERIFY) == set(WORDS) == set(get_args(Verify))


async def test_a_webhook_is_set_shown_changed_and_deleted(site: Site) -> None:
    assert await set_webhook(site) == {"created": True, "url": "/acme/in/github"}
    shown = (await site.get(WEBHOOK)).json
    assert {name: shown[name] for name in SETTINGS} == SETTINGS
    assert (shown["payload"], shown["answer"], shown["changed_ms"]) == ("body", "id", T0)
    site.clock.advance(1)
    assert (await set_webhook(site, payload="request"))["created"] is False
    (row,) = (await site.get("/acme/webhook")).json["webhooks"]
    assert (row["name"], row["payload"], row["changed_ms"]) == ("github", "request", T0 + 1000)
    assert (await site.call("DELETE", WEBHOOK)).status == 200
    assert (await site.call("DELETE", WEBHOOK)).status == 404
    assert (await site.get(WEBHOOK)).status == 404
    assert (await site.get("/acme/webhook")).json == {"webhooks": []}


async def test_every_setting_is_kept(site: Site) -> None:
    settings = {
        "type": "order",
        "verify": "hmac",
        "secrets": ["HOOK"],
        "header": "X-Sign",
        "algorithm": "sha512",
        "digest": "base64",
        "prefix": "v1=",
        "delivery_header": "X-Id",
        "payload": "request",
        "answer": "result",
        "wait_s": 3.5,
        "result_type": "text/xml",
        "takes_get": False,
    }
    assert (await site.call("PUT", WEBHOOK, json=settings)).status == 200
    shown = (await site.get(WEBHOOK)).json
    assert {name: shown[name] for name in settings} == settings


@pytest.mark.parametrize(
    ("verify", "header", "said"),
    [
        ("hmac", "X-Sign", "verified by hmac in X-Sign (sha256, hex) with HOOK"),
        ("token", "X-Sign", "verified by token in X-Sign with HOOK"),
        ("token", None, "verified by token in ?token= with HOOK"),
        ("github", "X-Sign", "verified by github with HOOK"),
    ],
)
async def test_a_terminal_names_the_header_that_is_looked_at(
    site: Site, terminal: Terminal, verify: str, header: str | None, said: str
) -> None:
    await set_webhook(site, verify=verify, header=header)
    assert said in (await terminal.run("webhook", "get", "github")).splitlines()


@pytest.fixture
def another_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("public")


async def test_the_address_is_whole_where_the_service_knows_its_own(another_folder: Path) -> None:
    settings = WebSettings(port=0, public_url="https://jobs.example.com/")
    async with open_site(another_folder, settings=settings) as site:
        answer = await site.call("PUT", WEBHOOK, json={"type": "build", "verify": "none"})
        assert answer.json["url"] == "https://jobs.example.com/acme/in/github"


async def test_what_changes_a_webhook_is_on_record(site: Site) -> None:
    await set_webhook(site)
    await site.call("DELETE", WEBHOOK)
    events = (await site.get("/admin/audit?tenant=acme", key="operator")).json["events"]
    assert [it["action"] for it in events][:2] == ["webhook.delete", "webhook.set"]
    detail = json.loads(events[1]["detail"])
    assert detail.items() >= {"webhook": "github", "type": "build", "verify": "github"}.items()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"type": "build*"}, "type"),
        ({"type": ""}, "type"),
        ({"verify": "trust"}, "verify"),
        ({"verify": "none"}, "secrets"),
        ({"secrets": []}, "secrets"),
        ({"secrets": ["A", "B", "C", "D", "E"]}, "secrets"),
        ({"secrets": ["PATH"]}, "secrets"),
        ({"secrets": ["not-a-name"]}, "secrets"),
        ({"secrets": ["NOT_SET"]}, "secrets"),
        ({"verify": "hmac"}, "header"),
        ({"header": "X Y"}, "header"),
        ({"header": ""}, "header"),
        ({"delivery_header": "a b"}, "delivery_header"),
        ({"algorithm": "md5"}, "algorithm"),
        ({"wait_s": 61}, "wait_s"),
        ({"wait_s": 0}, "wait_s"),
        ({"result_type": "text/html"}, "result_type"),
        ({"takes_get": True}, "takes_get"),
        ({"takes_get": True, "payload": "request"}, "takes_get"),
        ({"takes_get": True, "verify": "token"}, "takes_get"),
        ({"misspelt": 1}, "misspelt"),
    ],
)
async def test_what_is_wrong_is_named(site: Site, changes: dict[str, Any], field: str) -> None:
    answer = await site.call("PUT", WEBHOOK, json=SETTINGS | changes)
    assert (answer.status, answer.json["error"]["detail"]["field"].partition("[")[0]) == (422, field), answer.body
    assert (await site.get("/acme/webhook")).json == {"webhooks": []}


async def test_a_name_is_as_that_of_a_type(site: Site) -> None:
    answer = await site.call("PUT", "/acme/webhook/a%7Cb", json=SETTINGS)
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "name")
    assert (await site.get("/acme/webhook/a%7Cb")).status == 404
    assert (await site.call("DELETE", "/acme/webhook/a%7Cb")).status == 404


async def test_nobody_lets_others_do_what_they_may_not_do_themselves(site: Site) -> None:
    _, site.keys["manages"] = await create_key(site.service, "test", "acme", scopes=("manage",))
    _, site.keys["adds"] = await create_key(site.service, "test", "acme", scopes=("manage", "submit"))
    refused = await site.call("PUT", WEBHOOK, key="manages", json=SETTINGS)
    assert (refused.status, refused.json["error"]["detail"]) == (403, {"scope": "submit"})
    await set_webhook(site, key="adds")
    refused = await site.call("PUT", WEBHOOK, key="adds", json=SETTINGS | {"answer": "result"})
    assert (refused.status, refused.json["error"]["detail"]) == (403, {"scope": "read"})


async def test_a_tenant_has_so_many_and_may_change_them(site: Site) -> None:
    for number in range(MAX_WEBHOOKS):
        await set_webhook(site, f"/acme/webhook/w{number}")
    answer = await site.call("PUT", WEBHOOK, json=SETTINGS)
    assert (answer.status, answer.code) == (429, "quota_exceeded")
    assert (await set_webhook(site, "/acme/webhook/w7", payload="request"))["created"] is False
    await site.call("DELETE", "/acme/webhook/w7")
    await set_webhook(site)


async def test_those_that_are_made_at_the_same_time_are_no_more_than_a_tenant_may_have(site: Site) -> None:
    for number in range(MAX_WEBHOOKS - 1):
        await set_webhook(site, f"/acme/webhook/w{number}")
    made = [site.call("PUT", f"/acme/webhook/late{number}", json=SETTINGS) for number in range(5)]
    assert {answer.status for answer in await asyncio.gather(*made)} <= {200, 429}
    assert len((await site.get("/acme/webhook")).json["webhooks"]) <= MAX_WEBHOOKS


async def test_another_tenants_webhooks_are_not_seen(site: Site) -> None:
    await set_webhook(site)
    assert (await site.get("/other/webhook", key="other")).json == {"webhooks": []}
    assert (await site.get("/other/webhook/github", key="other")).status == 404
    assert (await site.call("DELETE", "/other/webhook/github", key="other")).status == 404
    assert (await site.get(WEBHOOK)).status == 200


async def test_what_a_newer_version_has_set_is_nobodys(site: Site) -> None:
    newer = '{"type": "build", "verify": "by a scheme of tomorrow"}'
    await site.store.put_webhook(WebhookRecord("acme", "github", T0, "k", newer))
    assert (await site.get("/acme/webhook")).json == {"webhooks": []}
    assert (await site.get(WEBHOOK)).status == 404
    assert (await site.post("/acme/in/github", key=None, data=b"x")).status == 404

"""The pages of webhooks: what they show, what their forms do, and who may."""

import re
from html import unescape
from pathlib import Path

import pytest

from functory.operations.keys import create_key
from functory.operations.webhooks import get_webhook, list_webhooks
from functory.web.http.settings import WebSettings
from functory.webhooks.terms import Terms
from tests.support.pages import visitor
from tests.support.web import Site, open_site

PAGE = "/ui/t/acme/webhooks"
NEW = {"name": "github", "type": "build", "verify": "github", "secret-HOOK": "yes"}
INPUT = re.compile(r'<input id="\w+" name="(\w+)"[^>]*? value="([^"]*)"')
CHECKED = re.compile(r'<input type="checkbox" id="[\w-]+" name="([\w-]+)" value="yes" checked>')
SELECT = re.compile(r'<select id="\w+" name="(\w+)">(.*?)</select>')
CHOSEN = re.compile(r'<option value="([^"]*)" selected>')


@pytest.fixture(autouse=True)
async def secret(site: Site) -> None:
    for name in ("HOOK", "NEXT"):
        await site.call("PUT", f"/acme/secret/{name}", json={"value": "the-key-of-both"})


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder for another service."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def form_of(text: str) -> dict[str, str]:
    """As a browser would send it."""
    fields = {name: unescape(value) for name, value in INPUT.findall(text)}
    fields |= {name: (CHOSEN.findall(options) or [""])[0] for name, options in SELECT.findall(text)}
    return fields | dict.fromkeys(CHECKED.findall(text), "yes")


async def terms_of(site: Site, name: str = "github") -> Terms:
    return (await get_webhook(site.service, "acme", name)).terms


@pytest.mark.parametrize(
    ("typed", "terms"),
    [
        (NEW, Terms(type="build", verify="github", secrets=("HOOK",))),
        (NEW | {"secret-NEXT": "yes"}, Terms(type="build", verify="github", secrets=("HOOK", "NEXT"))),
        (
            NEW
            | {"verify": "hmac", "header": "X-Sign", "algorithm": "sha512", "digest": "base64", "prefix": "v1, "}
            | {"delivery_header": "X-Id", "payload": "request", "answer": "result", "wait": "3.5s"}
            | {"result_type": "text/xml"},
            Terms(
                type="build",
                verify="hmac",
                secrets=("HOOK",),
                header="X-Sign",
                algorithm="sha512",
                digest="base64",
                prefix="v1, ",
                delivery_header="X-Id",
                payload="request",
                answer="result",
                wait_s=3.5,
                result_type="text/xml",
            ),
        ),
        (
            NEW | {"verify": "token", "takes_get": "yes", "payload": "request", "wait": "1m"},
            Terms(type="build", verify="token", secrets=("HOOK",), takes_get=True, payload="request", wait_s=60.0),
        ),
        (
            NEW | {"no_delivery_header": "yes"},
            Terms(type="build", verify="github", secrets=("HOOK",), delivery_header=""),
        ),
        ({"name": "github", "type": "build", "verify": "none"}, Terms(type="build", verify="none")),
    ],
)
async def test_the_form_makes_a_webhook_and_saving_it_again_changes_nothing(
    site: Site, typed: dict[str, str], terms: Terms
) -> None:
    async with visitor(site, "acme") as visit:
        made = await visit.post(PAGE, typed)
        assert (made.status, made.location) == (303, f"{PAGE}/github?note=webhook_set"), made.text
        assert await terms_of(site) == terms
        form = form_of((await visit.get(made.location)).text)
        assert (await visit.post(f"{PAGE}/github", form)).status == 303
        assert await terms_of(site) == terms


async def test_a_webhook_is_listed_changed_and_deleted(site: Site) -> None:
    async with visitor(site, "acme") as visit:
        assert "No webhooks yet" in (await visit.get(PAGE)).text
        await visit.post(PAGE, NEW)
        listed = (await visit.get(PAGE)).text
        for shown in (
            f"{site.url}/acme/in/github<",
            '/type/build">build<',
            "GitHub with",
            ">HOOK<",
            "the job&#39;s id",
        ):
            assert shown in listed, shown
        form = form_of((await visit.get(f"{PAGE}/github")).text) | {"answer": "result", "wait": "3s"}
        del form["secret-HOOK"]
        await visit.post(f"{PAGE}/github", form | {"secret-NEXT": "yes"})
        assert (await terms_of(site)).secrets == ("NEXT",), "one is replaced by another"
        page = (await visit.get(f"{PAGE}/github")).text
        assert "the job&#39;s result, within 3 s" in page
        assert f'<code id="address">{site.url}/acme/in/github</code>' in page
        gone = await visit.post(f"{PAGE}/github/delete")
        assert gone.location == f"{PAGE}?note=webhook_deleted"
        assert "No webhooks yet" in (await visit.get(PAGE)).text
        assert (await visit.get(f"{PAGE}/github")).status == 404
        assert (await visit.post(f"{PAGE}/github", form)).status == 404


async def test_how_a_sender_shows_who_it_is_stands_in_words(site: Site) -> None:
    async with visitor(site, "acme") as visit:
        await visit.post(PAGE, NEW | {"verify": "hmac", "header": "X-Sign", "secret-NEXT": "yes"})
        await visit.post(PAGE, NEW | {"name": "ask", "verify": "token"})
        await visit.post(PAGE, {"name": "open", "type": "build", "verify": "none"})
        listed = (await visit.get(PAGE)).text
        assert 'HMAC in X-Sign (sha256, hex) with <span class="mono">HOOK</span> or <span class="mono">NEXT<' in listed
        assert "token in ?token= with" in listed
        assert ">anybody may post<" in listed
        assert "adds <code>?token=</code>" in (await visit.get(f"{PAGE}/ask")).text
        assert "adds <code>?token=</code>" not in (await visit.get(f"{PAGE}/github")).text


@pytest.mark.parametrize(
    ("changes", "once"),
    [
        ({}, "each X-GitHub-Delivery"),
        ({"verify": "slack"}, "each event, by the id in the body"),
        ({"verify": "token"}, "each delivery, also if it is sent again"),
        ({"verify": "token", "delivery_header": "X-Id"}, "each X-Id"),
        ({"verify": "stripe", "no_delivery_header": "yes"}, "each delivery, also if it is sent again"),
    ],
)
async def test_the_page_says_what_becomes_one_job(site: Site, changes: dict[str, str], once: str) -> None:
    async with visitor(site, "acme") as visit:
        page = await visit.post(PAGE, NEW | changes)
        assert f"<dt>One job for</dt><dd>{once}</dd>" in (await visit.get(page.location)).text


async def test_a_secret_that_is_gone_is_told_and_can_be_taken_out(site: Site) -> None:
    async with visitor(site, "acme") as visit:
        await visit.post(PAGE, NEW | {"secret-NEXT": "yes"})
        assert "not set<" not in (await visit.get(PAGE)).text
        await site.call("DELETE", "/acme/secret/HOOK")
        assert ">secret not set<" in (await visit.get(PAGE)).text
        page = (await visit.get(f"{PAGE}/github")).text
        assert "accepts nothing:</b> HOOK is not set" in page
        form = form_of(page)
        assert {"secret-HOOK", "secret-NEXT"} <= set(form)
        assert (await visit.post(f"{PAGE}/github", form)).status == 422
        del form["secret-HOOK"]
        await visit.post(f"{PAGE}/github", form)
        assert (await terms_of(site)).secrets == ("NEXT",)


async def test_the_address_is_the_public_one_where_somebody_has_said_which(elsewhere: Path) -> None:
    settings = WebSettings(port=0, shutdown_s=1.0, public_url="https://jobs.example.com/")
    async with open_site(elsewhere, settings=settings) as site, visitor(site, "acme") as visit:
        await visit.post(PAGE, {"name": "open", "type": "build", "verify": "none"})
        for path in (PAGE, f"{PAGE}/open"):
            text = (await visit.get(path)).text
            assert ">https://jobs.example.com/acme/in/open<" in text
            assert "public_url" not in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "a b"}, "&#39;a b&#39; is not a name for a webhook"),
        ({"type": "a b"}, "Type must be a letter or digit"),
        ({"verify": "rain"}, "Verified by must be one of"),
        ({"verify": "none"}, "With verify none, anybody may post"),
        ({"verify": "hmac"}, "To verify by hmac, name the header"),
        ({"header": "X Sign"}, "The header of the signature or token must be letters, digits, _ or -"),
        ({"delivery_header": "X Id"}, "The header that names a delivery must be letters, digits, _ or -"),
        ({"delivery_header": "X-Id", "no_delivery_header": "yes"}, "Either a header names a delivery, or each"),
        ({"prefix": "x" * 51}, "The text before the signature must have at most 50"),
        ({"wait": "soon"}, "The longest wait: "),
        ({"wait": "2m"}, "The longest wait, in seconds, must be at most 60"),
        ({"takes_get": "yes"}, "GET has no body"),
        ({"secret-ABSENT": "yes"}, "ABSENT not set yet"),
    ],
)
async def test_a_refused_form_comes_back_with_the_reason(site: Site, changes: dict[str, str], reason: str) -> None:
    typed = NEW | {"header": "X-Kept", "wait": "7s"} | changes
    if changes == {"verify": "hmac"}:
        typed["header"] = ""
    async with visitor(site, "acme") as visit:
        page = await visit.post(PAGE, typed)
        assert page.status == 422
        assert f'id="problem"><p><bdi>{reason}' in page.text, page.text
        assert await list_webhooks(site.service, "acme") == []
        form = form_of(page.text)
        known = {name: value for name, value in typed.items() if name not in {"verify", "secret-ABSENT"}}
        assert {name: form.get(name) for name in known} == known


async def test_what_was_taken_out_of_a_refused_form_stays_out(site: Site) -> None:
    async with visitor(site, "acme") as visit:
        await visit.post(PAGE, NEW | {"verify": "token", "payload": "request", "takes_get": "yes"})
        form = form_of((await visit.get(f"{PAGE}/github")).text)
        del form["secret-HOOK"], form["takes_get"]
        page = await visit.post(f"{PAGE}/github", form)
        assert page.status == 422
        assert not {"secret-HOOK", "takes_get"} & set(form_of(page.text))


@pytest.mark.parametrize(
    ("scopes", "is_shown", "status"),
    [
        (("read",), [], 403),
        (("read", "manage"), ["Delete"], 403),
        (("read", "submit", "manage"), ["Delete", "Save"], 303),
    ],
)
async def test_who_may_change_a_webhook_is_shown_how(
    site: Site, scopes: tuple[str, ...], is_shown: list[str], status: int
) -> None:
    await site.call("PUT", "/acme/webhook/github", json={"type": "build", "verify": "github", "secrets": ["HOOK"]})
    site.keys["some"] = (await create_key(site.service, "test", "acme", scopes=scopes))[1]
    async with visitor(site, "some") as visit:
        assert f"{site.url}/acme/in/github" in (await visit.get(PAGE)).text
        assert ("Create webhook" in (await visit.get(PAGE)).text) is ("Save" in is_shown)
        text = (await visit.get(f"{PAGE}/github")).text
        assert [word for word in ("Delete", "Save") if f">{word}</button>" in text] == is_shown
        assert (await visit.post(f"{PAGE}/github", NEW)).status == status
        assert (await visit.post(PAGE, NEW | {"name": "more"})).status == status
        assert (await visit.post(f"{PAGE}/github/delete")).status == (303 if "Delete" in is_shown else 403)


async def test_the_operator_sets_changes_and_deletes_webhooks_of_a_tenant_and_that_is_on_record(site: Site) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"suspended": True})
    async with visitor(site, "operator") as visit:
        assert "Create webhook" in (await visit.get(PAGE)).text
        made = await visit.post(PAGE, NEW | {"answer": "result"})
        assert (made.status, (await terms_of(site)).answer) == (303, "result"), made.text
        form = form_of((await visit.get(f"{PAGE}/github")).text)
        assert (await visit.post(f"{PAGE}/github", form | {"payload": "request"})).status == 303
        assert (await terms_of(site)).payload == "request"
        assert (await visit.post(f"{PAGE}/github/delete")).status == 303
        assert await list_webhooks(site.service, "acme") == []
        assert (await visit.post("/ui/t/acme/type/build/post", {"payload": "x"})).status == 403, "it posts no jobs"
    events = (await site.get("/admin/audit?tenant=acme", key="operator")).json["events"]
    told = [(it["action"], it["actor"]) for it in events if it["action"].startswith("webhook")]
    operator = site.keys["operator"].split("_")[1]
    assert told == [("webhook.delete", operator), ("webhook.set", operator), ("webhook.set", operator)]


async def test_without_secrets_the_form_leads_to_them(site: Site) -> None:
    async with visitor(site, "other") as visit:
        assert '<a href="/ui/t/other/secrets">Set one</a>' in (await visit.get("/ui/t/other/webhooks")).text

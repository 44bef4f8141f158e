"""Whatever a tenant can put into a page arrives there as text: a crawl of all pages and live parts, with markup in
everything that has words of a tenant's, and a look at the templates themselves."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from functory.web.http.settings import WebSettings
from functory.web.pages.mount import PAGES
from store.base import Code
from tests.support.pages import Visitor, visitor
from tests.support.web import Site, open_site

PAGES_FOLDER = Path(__file__).parents[2] / "functory" / "web"
RAW = re.compile(r"<u class=c-|[\"']on-canary=")
SEEN = re.compile(r"&lt;u class=c-(\w+)")
UNESCAPED = re.compile(r"\|\s*safe\b|autoescape\s+false|Markup\(|mark_safe|\|\s*forceescape")


def canary(kind: str) -> str:
    """Markup, and a quote that would end an attribute."""
    return f"<u class=c-{kind}>\" on-canary=\"' on-canary='"


SHOWN = {
    "payload",
    "result",
    "log",
    "message",
    "domain",
    "key",
    "unique",
    "options",
    "body",
    "env",
    "label",
    "host",
    "problem",
    "prefix",
}
"""Every text of a tenant's, or of a daemon's, that some page shows."""


@pytest.fixture(scope="module")
def templates() -> list[Path]:
    return sorted((PAGES_FOLDER / "pages" / "templates").rglob("*.html"))


def test_no_template_switches_escaping_off(templates: list[Path]) -> None:
    assert len(templates) > 20
    modules = [path for path in PAGES_FOLDER.rglob("*.py") if path.name != "charts.py"]
    found = [path.name for path in [*templates, *modules] if UNESCAPED.search(path.read_text())]
    assert found == [], "only charts.py makes HTML, of numbers"


def test_every_attribute_is_in_quotes(templates: list[Path]) -> None:
    """Without them a space in a value would begin another attribute."""
    unquoted = re.compile(r"\s[a-z-]+=\s*\{\{")
    assert [path.name for path in templates if unquoted.search(path.read_text())] == []


async def fill(site: Site) -> str:
    """Something with markup of every kind; the id of the job that carries most of it."""
    for more in ("", " more"):
        handler = {"body": canary("body") + more, "lang": "sh", "env": {"WORDS": canary("env")}}
        answer = await site.call("PUT", "/acme/handler/thumb", json=handler)
        assert answer.status in {200, 201}, answer.body
    job = {
        "payload": canary("payload"),
        "domain": canary("domain"),
        "key": canary("key"),
        "unique": canary("unique"),
        "options": {"words": canary("options")},
    }
    answer = await site.post("/acme/job/thumb/add", json=job)
    assert answer.status in {200, 201}, answer.body
    job_id: str = answer.json["ids"][0]
    await site.run(
        code=Code.FAILED,
        result=canary("result").encode(),
        log=canary("log").encode(),
        fingerprint="f",
        message=canary("message"),
    )
    rule = {"type": "thumb", "notify": "told", "when": "backlog"}
    assert (await site.call("PUT", "/acme/alert/full", json=rule)).status == 200
    assert (await site.call("PUT", "/acme/secret/HOOK", json={"value": "the-key-of-both"})).status == 200
    webhook = {"type": "thumb", "verify": "hmac", "secrets": ["HOOK"], "header": "X-Sign", "prefix": canary("prefix")}
    assert (await site.call("PUT", "/acme/webhook/full", json=webhook)).status == 200
    consumer = {"source": "block", "on_progress": "told"}
    assert (await site.call("PUT", "/acme/consumer/verify", json=consumer)).status == 200
    assert (await site.post("/admin/tenants/acme/keys", key="operator", json={"label": canary("label")})).status < 300
    info = {"host": canary("host"), "role": canary("host"), "problems": {"x": canary("problem")}}
    now_ms = site.clock.now_ms()
    await site.store.reserve_sysid(info=json.dumps(info), lease_ms=10**9, now_ms=now_ms)
    site.control.problems = {"x": canary("problem")}
    return job_id


def paths_of(page_path: str, job_id: str) -> list[str]:
    values = {
        "tenant": "acme",
        "type": "thumb",
        "id": job_id,
        "version": "2",
        "name": "acme",
        "run": "0" * 16,
        "consumer": "verify",
        "alert": "full",
        "webhook": "full",
    }
    path = page_path.format_map(values | {"part": "payload"})
    words = "q sort show from type state code age limit rate_per_s cursor tenant job against look"
    odd = "&".join(f"{name}=%3Cu%20class=c-query%3E%22%20on-canary=%22" for name in words.split())
    return [path, f"{path}?q=%3Cu%20class=c-query%3E%22%20on-canary=%22", f"{path}?job={job_id}", f"{path}?{odd}"]


async def first_part(visit: Visitor, path: str) -> str:
    """The first thing that a live page sends."""
    async with asyncio.timeout(20), visit.session.get(visit.site.url + path) as answer:
        assert answer.status == 200, path
        while line := (await answer.content.readline()).decode():
            if line.startswith("data:"):
                return str(json.loads(line.removeprefix("data:")))
    return ""


async def test_no_page_and_no_live_part_shows_markup_of_a_tenants(tmp_path: Path) -> None:
    seen: set[str] = set()
    settings = WebSettings(port=0, shutdown_s=1.0, live_tick_s=0.01)
    async with open_site(tmp_path, settings=settings) as site:
        job_id = await fill(site)
        crawled = 0
        for who in ("acme", "operator"):
            async with visitor(site, who) as visit:
                for page in PAGES:
                    if page.method != "GET" or "/raw/" in page.path:
                        continue
                    for path in paths_of(page.path, job_id):
                        shown = await visit.get(path)
                        crawled += shown.status == 200
                        assert not RAW.search(shown.text), f"{path}: {RAW.search(shown.text)}"
                        seen |= set(SEEN.findall(shown.text))
                    if page.live and "{run}" not in page.path and not (who == "acme" and "operator" in page.path):
                        text = await first_part(visit, f"{paths_of(page.path, job_id)[0]}/~live")
                        assert not RAW.search(text), page.path
                for form in ({"do": "try", "lang": "sh", "body": canary("tried"), "payload": canary("tried")},):
                    shown = await visit.post("/ui/t/acme/type/thumb/edit", form)
                    assert not RAW.search(shown.text)
                    seen |= set(SEEN.findall(shown.text))
    assert crawled > 40
    assert seen >= SHOWN | {"query", "tried"}, "a text that is shown nowhere proves nothing"

"""Wherever a browser gets on the pages, it gets a page, and the button for the colours leads back to one."""

import re
from html import unescape

import pytest

from tests.support.pages import Shown, Visitor, visitor
from tests.support.web import Site

BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"
NEXT = re.compile(r'action="/ui/theme"><input type="hidden" name="next" value="([^"]*)"')


async def change_colours(visit: Visitor, page: Shown) -> Shown:
    """Press the button of that page, and follow it."""
    (address,) = NEXT.findall(page.text)
    answer = await visit.post("/ui/theme", {"theme": "dark", "next": unescape(address)})
    assert answer.location == unescape(address)
    return await visit.get(answer.location, Accept=BROWSER)


@pytest.mark.parametrize(
    ("who", "path", "form", "status", "title"),
    [
        ("operator", "/ui/operator/tenants", {"name": "acme"}, 409, "Tenants"),
        ("operator", "/ui/operator/tenants/acme", {"weight": "0"}, 422, "Tenant acme"),
        ("operator", "/ui/operator/tenants/acme/keys", {}, 422, "Tenant acme"),
        ("operator", "/ui/operator/daemons/zz/pause", {}, 404, "Daemons"),
        ("acme", "/ui/t/acme/job/{job}/cancel", {}, 409, "{job}"),
        ("acme", "/ui/t/acme/consumers/none/start", {}, 404, "404"),
        ("acme", "/ui/t/acme/type/thumb/post", {"delay_s": "soon"}, 422, "Post"),
    ],
)
async def test_after_a_form_the_colours_lead_to_the_page_of_the_form(
    site: Site, who: str, path: str, form: dict[str, str], status: int, title: str
) -> None:
    (job_id,) = await site.add("x")
    await site.run()
    async with visitor(site, who) as visit:
        page = await visit.post(path.format(job=job_id), form, Accept=BROWSER)
        assert page.status == status, page.text
        shown = await change_colours(visit, page)
        assert shown.headers["Content-Type"].startswith("text/html")
        assert title.format(job=job_id) in shown.text.partition("</title>")[0]


async def test_no_button_takes_a_new_key_away(site: Site) -> None:
    async with visitor(site, "operator") as operator:
        made = await operator.post("/ui/operator/tenants/acme/keys", {"read": "yes"})
        assert 'id="new-key"' in made.text
        assert NEXT.findall(made.text) == []
        shown = await operator.get("/ui/operator/tenants/acme")
        assert (await change_colours(operator, shown)).status == 200


async def test_the_start_page_has_a_slash_or_not(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        assert [(await acme.get(path)).location for path in ("/ui", "/ui/")] == ["/ui/t/acme"] * 2
    async with visitor(site) as stranger:
        assert (await stranger.get("/ui/")).location.startswith("/ui/signin?next=")


@pytest.mark.parametrize(
    "query", ["x" * 2500, "%22" * 700, "x" * 7500], ids=["long", "long when quoted again", "longest"]
)
async def test_a_stranger_cannot_make_an_answers_headers_long(site: Site, query: str) -> None:
    """A proxy with small buffers would take the daemon for broken."""
    async with visitor(site) as stranger:
        answer = await stranger.get(f"/ui?x={query}")
        assert (answer.status, answer.location) == (303, "/ui/signin")
        theme = await stranger.post("/ui/theme", {"theme": "dark", "next": f"/ui/{'ä' * 1500}"})
        assert (theme.status, theme.location) == (303, "/ui")


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/ui/operator/tenants", "/ui/operator"),
        ("/ui/operator/tenants/acme/keys", "/ui/operator/tenants/acme"),
        ("/ui/operator/tenants/%2F%2Fevil/keys", "/ui/operator/tenants/%2F%2Fevil"),
    ],
)
async def test_the_address_of_a_form_leads_to_its_page(site: Site, path: str, page: str) -> None:
    async with visitor(site, "operator") as operator:
        answer = await operator.get(path, Accept=BROWSER)
        assert (answer.status, answer.location) == (303, page)
    async with visitor(site, "acme") as acme:
        assert (await acme.get(path, Accept=BROWSER)).status == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ui/nowhere", 404),
        ("/ui/t/acme/nowhere", 404),
        ("/ui/scoreboard", 404),
        ("/ui/static/nothing", 404),
        ("/ui/%3Cscript%3E", 404),
        ("/ui/operator/tenants/acme/pause", 405),
    ],
)
async def test_an_unknown_address_is_a_page_for_a_browser_and_json_for_others(
    site: Site, path: str, status: int
) -> None:
    async with visitor(site, "operator") as visit:
        page = await visit.get(path, Accept=BROWSER)
        assert (page.status, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
        assert 'href="/ui"' in page.text
        assert "<script>" not in page.text
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        other = await visit.get(path)
        assert (other.status, other.headers["Content-Type"].partition(";")[0]) == (status, "application/json")
        assert [it.headers.get("Allow") for it in (page, other)] == [None if status == 404 else "POST"] * 2

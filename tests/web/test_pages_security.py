"""The pages against those who should not see or change them: sessions, forms, hosts, other tenants, headers."""

import asyncio
import gzip
from pathlib import Path
from urllib.parse import urlencode

import pytest

from functory.web.app import WEB
from functory.web.http.form import parse_form
from functory.web.http.settings import WebSettings
from functory.web.pages import endpoint
from functory.web.pages.mount import PAGES
from tests.support.pages import Shown, visitor
from tests.support.web import T0, Site, open_site

HOUR_S = 3600


def at(path: str, tenant: str, job_id: str = "20270115T080000000Z-a7-000000") -> str:
    """A path with every part filled in."""
    parts = {"{tenant}": tenant, "{type}": "thumb", "{id}": job_id, "{part}": "payload", "{version}": "1"}
    parts |= {
        "{run}": "0" * 16,
        "{name}": tenant,
        "{sysid}": "a7",
        "{order:pause|resume}": "pause",
        "{order:start|stop}": "stop",
        "{consumer}": "verify",
        "{alert}": "full",
        "{webhook}": "full",
        "{secret}": "A",
        "{key_id}": "k",
    }
    for name, value in parts.items():
        path = path.replace(name, value)
    assert "{" not in path, path
    return path


SIGNED_IN = [page for page in PAGES if page.scope is not None]


async def test_every_page_but_the_door_needs_a_session(site: Site) -> None:
    async with visitor(site) as stranger:
        for page in SIGNED_IN:
            path = at(page.path, "acme")
            if page.method == "GET":
                answer = await stranger.get(path)
                assert answer.status == 303, path
                assert answer.location.startswith("/ui/signin?next="), path
            else:
                assert (await stranger.post(path)).status == 401, path
            if page.live:
                assert (await stranger.get(f"{path}/~live")).status == 401, path


async def test_no_tenant_reaches_another_ones_pages_nor_the_operators(site: Site) -> None:
    (job_id,) = await site.add("private payload")
    await site.run()
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"private body")
    async with visitor(site, "other") as other:
        for page in SIGNED_IN:
            of_others = "{tenant}" in page.path or page.path.startswith("/ui/operator")
            if of_others:
                path = at(page.path, "acme", job_id)
                asked = other.get if page.method == "GET" else other.post
                answer = await asked(path)
                assert answer.status == 404, path
                assert "private" not in answer.text, path
                if page.live:
                    assert (await other.get(f"{path}/~live")).status == 404, path
        assert (await other.get(f"/ui/t/other/job/{job_id}")).status == 404, "its own path, another's job"
        assert (await other.get(f"/ui/t/other/job/{job_id}/raw/payload")).status == 404
        assert (await other.get(f"/ui/t/other/type/thumb/edit?job={job_id}")).status == 404


async def test_the_operator_sees_tenants_and_does_not_change_their_code(site: Site) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat")
    async with visitor(site, "operator") as operator:
        assert (await operator.get("/ui/t/acme")).status == 200
        assert (await operator.get("/ui/t/nobody")).status == 404
        assert (await operator.get("/ui/t/acme/type/thumb/edit")).status == 200
        answer = await operator.post("/ui/t/acme/type/thumb/edit", {"lang": "sh", "body": "x", "do": "save"})
        assert answer.status == 403
        assert (await operator.post("/ui/t/acme/type/thumb/pause")).status == 303


@pytest.mark.parametrize("token", ["", "0" * 64, "ü"])
async def test_a_form_without_the_sessions_token_changes_nothing(site: Site, token: str) -> None:
    await site.call("PUT", "/acme/alert/full", json={"type": "thumb", "notify": "told", "when": "backlog"})
    async with visitor(site, "acme") as acme, visitor(site, "operator") as operator:
        for page in SIGNED_IN:
            if page.method == "POST":
                who = operator if page.path.startswith("/ui/operator") else acme
                assert (await who.post(at(page.path, "acme"), {"token": token})).status == 403, page.path
        assert (await acme.post("/ui/t/acme/type/thumb/pause", {"token": operator.token})).status == 403
    tenant = await site.store.get_tenant("acme")
    assert tenant is not None
    assert not tenant.suspended
    assert not site.control.is_paused
    assert await site.store.get_counters("acme", now_ms=T0) == [], "a paused type would be there"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": "null"},
    ],
)
async def test_a_form_from_another_origin_is_refused_even_with_the_token(site: Site, headers: dict[str, str]) -> None:
    async with visitor(site, "acme") as acme:
        assert (await acme.post("/ui/t/acme/type/thumb/pause", **headers)).status == 403
        good = {"Origin": site.url, "Sec_Fetch_Site": "same-origin"}
        assert (await acme.post("/ui/t/acme/type/thumb/pause", **good)).status == 303
        without_referrer = {"Origin": "null", "Sec_Fetch_Site": "same-origin"}
        assert (await acme.post("/ui/t/acme/type/thumb/pause", **without_referrer)).status == 303


async def test_the_sign_in_form_cannot_be_sent_from_elsewhere(site: Site) -> None:
    async with visitor(site) as lured:
        answer = await lured.post("/ui/signin", {"token": "guess", "key": site.keys["other"]})
        assert answer.status == 403
        await lured.get("/ui/signin")
        answer = await lured.post("/ui/signin", {"token": "guess", "key": site.keys["other"]})
        assert (answer.status, lured.cookie()) == (403, "")


@pytest.mark.parametrize("path", ["/ui/signin", "/ui/theme"])
async def test_a_form_that_needs_no_session_is_small_and_plain(site: Site, path: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    packed = gzip.compress(b"theme=" + b"%" * (4 << 20))
    async with visitor(site) as stranger:
        for data, headers, status in (
            (packed, {**form, "Content-Encoding": "gzip"}, 400),
            (b"theme=light&next=" + b"x" * 20_000, form, 413),
            (b"theme=" + b"%" * 2000, form, 400),
        ):
            async with stranger.session.post(site.url + path, data=data, headers=headers) as answer:
                assert answer.status == status, await answer.text()
        assert (await stranger.post("/ui/theme", {"theme": "light", "next": "/ui/" + "ü" * 1000})).status == 303


async def test_a_form_of_a_session_has_a_few_mib_and_keeps_its_room_until_it_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = site.listener._app[WEB].bodies
    taken: list[int] = []

    def read(data: bytes, max_fields: int) -> list[tuple[str, str]]:
        taken.append(bodies._taken["acme"])
        return parse_form(data, max_fields)

    monkeypatch.setattr(endpoint, "parse_form", read)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Content-Encoding": "gzip"}
    async with visitor(site, "acme") as acme:

        async def save(**fields: str) -> Shown:
            form = {"token": acme.token, "lang": "python", "type": "x", "do": "save", **fields}
            packed = gzip.compress(urlencode(form).encode())
            url = f"{site.url}/ui/t/acme/new"
            async with acme.session.post(url, data=packed, headers=headers, allow_redirects=False) as answer:
                return Shown(answer.status, answer.headers, await answer.text())

        taken.clear()
        assert (await save(body=f"# {'ü' * 400_000}\n")).status == 303
        assert len(taken) == 1
        assert taken[0] > 2_400_000
        assert (await save(body="x" * (9 << 20))).status == 413
        more = await save(body="pass", more="[" + "[]," * 400_000 + "1]")
        assert (more.status, "JSON values" in more.text) == (422, True)


async def test_a_cookie_that_is_no_text_signs_nobody_in(site: Site) -> None:
    place = site.url.removeprefix("http://")
    head = f"POST /ui/signin HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\nContent-Length: 7\r\n"
    kind = b"Content-Type: application/x-www-form-urlencoded\r\n"
    page = await site.raw(head.encode() + kind + b"Cookie: functory-signin=\xff\r\n\r\ntoken=a", read=-1)
    assert page.startswith(b"HTTP/1.1 403 ")
    assert b"The form had expired" in page


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[::1", "a b"])
async def test_a_name_that_is_not_ours_is_not_answered(site: Site, host: str) -> None:
    async with visitor(site, "acme") as acme:
        answer = await acme.get("/ui/t/acme", Host=host)
        assert answer.status in {400, 421}, answer.text
        assert "Scoreboard" not in answer.text


async def test_behind_a_proxy_with_tls_the_cookie_is_bound_to_the_host(tmp_path: Path) -> None:
    settings = WebSettings(port=0, public_url="https://jobs.example.com", shutdown_s=1.0)
    async with open_site(tmp_path, settings=settings) as site, visitor(site) as proxied:
        page = await proxied.get("/ui/signin", Host="jobs.example.com")
        assert "not encrypted" not in page.text
        form = page.headers.getall("Set-Cookie")[0]
        token = form.partition("=")[2].partition(";")[0]
        assert "Secure" in form
        cookie = {"Host": "jobs.example.com", "Cookie": f"functory-signin={token}"}
        answer = await proxied.post("/ui/signin", {"token": token, "key": site.keys["acme"]}, **cookie)
        made = next(it for it in answer.headers.getall("Set-Cookie") if "__Host-functory" in it)
        for part in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"):
            assert part in made
        assert "Domain" not in made
        value = made.partition("=")[2].partition(";")[0]
        shown = await proxied.get("/ui/t/acme", Host="jobs.example.com", Cookie=f"__Host-functory={value}")
        assert shown.status == 200
        plain = await proxied.get("/ui/t/acme", Host="jobs.example.com", Cookie=f"functory-session={value}")
        assert plain.status == 303, "a cookie that any neighbour could have set is not looked at"


async def test_an_open_network_without_tls_is_pointed_out(site: Site) -> None:
    async with visitor(site) as guest:
        assert "not encrypted" in (await guest.get("/ui/signin", Host="10.1.2.3:8484")).text
        assert "not encrypted" not in (await guest.get("/ui/signin", Host="localhost:8484")).text


async def test_neither_the_cookie_nor_the_store_gives_anything_away(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site, visitor(site, "acme") as acme:
        cookie, secret = acme.cookie(), site.keys["acme"].split("_", 2)[2]
    assert len(cookie) == 43
    assert secret not in cookie
    data = await asyncio.to_thread(lambda: b"".join(path.read_bytes() for path in tmp_path.glob("store.db*")))
    assert b"session:" in data
    assert cookie.encode() not in data
    assert secret.encode() not in data


async def test_a_session_ends_with_its_time_its_owner_and_its_key(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        site.clock.advance(12 * HOUR_S - 1)
        assert (await acme.get("/ui/t/acme")).status == 200
        site.clock.advance(2)
        assert (await acme.get("/ui/t/acme")).status == 303, "twelve hours"
    async with visitor(site, "acme") as acme:
        cookie = acme.cookie()
        assert (await acme.post("/ui/signout")).location == "/ui/signin?note=signed_out"
        assert acme.cookie() == ""
        stolen = {"Cookie": f"functory-session={cookie}"}
        assert (await acme.get("/ui/t/acme", **stolen)).status == 303, "a copy of the cookie is of no use either"
    async with visitor(site, "acme") as acme, visitor(site, "operator") as operator:
        key_id = site.keys["acme"].split("_")[1]
        assert (await acme.get("/ui/t/acme")).status == 200
        answer = await operator.post(f"/ui/operator/tenants/acme/keys/{key_id}/revoke")
        assert answer.status == 303
        assert (await acme.get("/ui/t/acme")).status == 303, "revoked here: at once"


async def test_a_key_revoked_on_another_daemon_ends_the_session_within_the_life_of_the_cache(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        await site.store.delete_key("acme", site.keys["acme"].split("_")[1])
        site.clock.advance(5)
        assert (await acme.get("/ui/t/acme")).status == 303


async def test_a_session_is_good_on_every_daemon_of_the_store_and_after_a_restart(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site, visitor(site, "acme") as acme:
        cookie = acme.cookie()
    async with open_site(tmp_path, tenants=()) as site, visitor(site) as acme:
        shown = await acme.get("/ui/t/acme", Cookie=f"functory-session={cookie}")
        assert shown.status == 200


async def test_attempts_to_sign_in_are_throttled(site: Site) -> None:
    async with visitor(site) as guesser:
        statuses = [(await guesser.sign_in("fk_a_" + "x" * 30)).status for _ in range(12)]
        assert statuses == [403] * 10 + [429] * 2
        assert (await guesser.sign_in(site.keys["acme"])).status == 429


async def test_pages_count_as_requests_of_their_key(site: Site) -> None:
    limits = {"requests_per_s": 0.001, "requests_burst": 3}
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
    async with visitor(site, "acme") as acme:
        statuses = [(await acme.get("/ui/t/acme")).status for _ in range(3)]
        assert statuses == [200, 200, 429], "signing in led to the first"


async def test_who_signs_in_again_leaves_no_session_behind(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        before = acme.cookie()
        await acme.sign_in(site.keys["other"])
        assert acme.cookie() not in {"", before}
    async with visitor(site) as thief:
        assert (await thief.get("/ui/t/acme", Cookie=f"functory-session={before}")).status == 303


@pytest.mark.parametrize("scopes", [["submit"], ["handlers", "manage"]])
async def test_a_key_without_read_cannot_sign_in(site: Site, scopes: list[str]) -> None:
    made = await site.post("/admin/tenants/acme/keys", key="operator", json={"scopes": scopes})
    async with visitor(site) as submitter:
        answer = await submitter.sign_in(made.json["key"])
        assert answer.status == 403
        assert "lacks the scope read" in answer.text


async def test_a_reader_sees_and_changes_nothing(site: Site) -> None:
    made = await site.post("/admin/tenants/acme/keys", key="operator", json={"scopes": ["read"]})
    site.keys["reader"] = made.json["key"]
    async with visitor(site, "reader") as reader:
        assert (await reader.get("/ui/t/acme")).status == 200
        for page in SIGNED_IN:
            if page.method == "POST" and "{tenant}" in page.path:
                assert (await reader.post(at(page.path, "acme"))).status == 403, page.path


async def test_a_suspended_tenant_reads_and_changes_nothing(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        await site.post("/admin/tenants/acme/pause", key="operator")
        shown = await acme.get("/ui/t/acme")
        assert shown.status == 200
        assert "This tenant is suspended" in shown.text
        assert (await acme.post("/ui/t/acme/type/thumb/pause")).status == 403


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example", "/ui//evil.example", "/ui/../x\\y", "/acme/results", "/ui/\r\nX: y"],
)
async def test_signing_in_leads_to_our_own_pages_only(site: Site, target: str) -> None:
    async with visitor(site) as guest:
        assert (await guest.sign_in(site.keys["acme"], target)).location == "/ui/t/acme"
    async with visitor(site) as guest:
        assert (await guest.sign_in(site.keys["acme"], "/ui/t/acme/jobs?state=waiting")).location.startswith("/ui/t/")


async def test_every_page_says_what_browsers_may_do_with_it(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        for path in ("/ui/signin", "/ui/t/acme", "/ui/t/acme/jobs", "/ui/t/nobody", "/ui/t/acme/job/x"):
            headers = (await acme.get(path)).headers
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';"), path
            assert "unsafe" not in policy
            for part in ("frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "connect-src 'self'"):
                assert part in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cache-Control"] == "no-store"


async def test_raw_parts_are_downloads_that_no_browser_runs(site: Site) -> None:
    (job_id,) = await site.add("<script>alert(1)</script>")
    await site.run(result=b"<html>")
    async with visitor(site, "acme") as acme:
        for part in ("payload", "result", "log"):
            raw = await acme.get(f"/ui/t/acme/job/{job_id}/raw/{part}")
            assert raw.headers["Content-Type"] == "text/plain; charset=utf-8"
            assert raw.headers["Content-Disposition"].startswith("attachment")
            assert "default-src 'none'" in raw.headers["Content-Security-Policy"]
        assert (await acme.get(f"/ui/t/acme/job/{job_id}/raw/other")).status == 404


async def test_a_static_file_is_kept_for_ever_and_nothing_else_is_served(site: Site) -> None:
    async with visitor(site) as guest:
        page = await guest.get("/ui/signin")
        sheet = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        answer = await guest.get(sheet)
        assert answer.status == 200
        assert "immutable" in answer.headers["Cache-Control"]
        for path in ("/ui/static/x/app.css", f"{sheet}x", sheet.replace("app.css", "..%2fmount.py")):
            assert (await guest.get(path)).status == 404, path


async def test_cookies_of_others_are_not_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with visitor(site, "acme") as acme:
        session = acme.cookie()
    parsed: list[str] = []

    def counted(header: str) -> list[object]:
        parsed.append(header)
        return []

    monkeypatch.setattr("aiohttp.web_request.parse_cookie_header", counted)
    many = "a=b; " * 1500

    async def shown(cookies: str) -> bytes:
        lines = ["GET /ui/t/acme HTTP/1.1", f"Host: 127.0.0.1:{site.listener.port}", f"Cookie: {cookies}"]
        return await site.raw("\r\n".join([*lines, "Connection: close", "", ""]).encode(), read=1 << 20)

    for cookies in (many, f"xfunctory-session={session}", f"x=functory-session={session}", "functory-session=a"):
        assert b" 303 " in (await shown(cookies)).partition(b"\r\n")[0], cookies[:40]
    own = f"functory-session={session}"
    for cookies in (
        f"{many}{own}",
        f"{own}; {many}",
        f"a=1;{own}",
        f'functory-session="{session}"',
    ):
        answer = await shown(f"{cookies}; functory-theme=dark")
        assert b" 200 " in answer.partition(b"\r\n")[0], cookies[:40]
    assert parsed == []

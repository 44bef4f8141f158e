"""Who gets in: every route without a key, with a wrong one, with another tenant's; ids of others; rates and quotas."""

from pathlib import Path

import pytest

from functory.web.app import ROUTES
from functory.web.http.routes import Route
from functory.web.http.settings import WebSettings
from store.errors import StoreUnavailable
from tests.support.web import T0, Site, open_site

ADD = "/acme/job/thumb/add"
CLOSED = [route for route in ROUTES if route.scope not in {None, "webhook"}]
OF_TENANTS = [route for route in CLOSED if route.is_of_tenant]
OF_OPERATOR = [route for route in ROUTES if route.scope in {"operator", "metrics"}]


def at(route: Route, tenant: str, job_id: str = "20270115T080000000Z-a7-000000") -> str:
    values = {"tenant": tenant, "type": "thumb", "id": job_id, "name": tenant, "key_id": "k", "sysid": "a7"}
    values |= {"secret": "API_KEY", "webhook": "github"}
    return route.path.format(**values, domain="api", consumer="verify", alert="full")


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


async def test_no_route_answers_without_a_good_key(site: Site) -> None:
    key = site.keys["acme"]
    bad = [None, "", "x", "fk_", key[:-1], key + "x", key.replace("fk_", "fk_a"), key.upper(), "fk_" + "a" * 5000]
    for route in CLOSED:
        answer = await site.call(route.method, at(route, "acme"), key=None, json={})
        assert (answer.status, answer.code) == (401, "unauthorized"), name(route)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    for text in bad:
        answer = await site.post(ADD, key=text, data=b"x")
        assert answer.status == 401, text
    for header in ("Basic " + key, "Bearer", "Bearer ", key, "bearer\t" + key):
        answer = await site.post(ADD, key=None, headers={"Authorization": header}, data=b"x")
        assert answer.status == 401, header
    assert (await site.store.get_usage("acme")).jobs == 0


async def test_every_route_of_a_tenant_refuses_another_tenants_key(site: Site) -> None:
    assert len(OF_TENANTS) > 25
    for route in OF_TENANTS:
        for tenant in ("acme", "nobody"):
            answer = await site.call(route.method, at(route, tenant), key="other", json={})
            assert (answer.status, answer.code) == (403, "forbidden"), name(route)
            assert answer.json["error"]["detail"] == {"tenant": "other"}, "the same whether it exists or not"
        answer = await site.call(route.method, at(route, "acme"), key="operator", json={})
        assert answer.status == 403, f"the operator is no tenant: {name(route)}"


async def test_every_route_of_the_operator_refuses_a_tenants_key(site: Site) -> None:
    assert len(OF_OPERATOR) > 20
    for route in OF_OPERATOR:
        answer = await site.call(route.method, at(route, "acme"), key="acme", json={})
        assert (answer.status, answer.code) == (403, "forbidden"), name(route)


async def test_every_route_with_another_tenants_job_answers_as_if_it_were_not_there(site: Site) -> None:
    (job_id,) = await site.add("hidden payload")
    (ended,) = await site.add("hidden too", path="/acme/job/mail/add")
    await site.run(jobtype="acme-mail", result=b"hidden result")
    before = await site.store.get_job("acme", job_id, now_ms=T0)
    with_id = [route for route in OF_TENANTS if "{id}" in route.path]
    assert len(with_id) >= 6
    for route in with_id:
        body = {"payload": "mine"} if route.method == "PATCH" else {}
        for target in (job_id, ended):
            answer = await site.call(route.method, at(route, "other", target), key="other", json=body)
            nothing = await site.call(route.method, at(route, "other", target[:-1] + "f"), key="other", json=body)
            assert (answer.status, answer.code) == (404, "missing"), name(route)
            assert answer.body.replace(target.encode(), b"") == nothing.body.replace(
                (target[:-1] + "f").encode(), b""
            ), "no difference between foreign and absent"
            assert b"hidden " not in answer.body
    answer = await site.post(f"/other/job/x/add?parent={job_id}", key="other", data=b"child")
    assert (answer.status, answer.code) == (404, "not_found")
    assert await site.store.get_job("acme", job_id, now_ms=T0) == before


async def test_another_tenants_handlers_and_listings_are_not_seen(site: Site) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"hidden body")
    await site.add("hidden payload")
    await site.run()
    for route in OF_TENANTS:
        if route.method == "GET" and "{id}" not in route.path:
            answer = await site.call("GET", at(route, "other"), key="other")
            assert b"hidden " not in answer.body, name(route)
            assert b"acme" not in answer.body, name(route)
    for method, path, body in [
        ("DELETE", "/other/handler/thumb", None),
        ("POST", "/other/handler/thumb/rollback", {"version": 1}),
        ("POST", "/other/handler/thumb/invoke", {}),
    ]:
        assert (await site.call(method, path, key="other", json=body)).status == 404
    assert (await site.get("/acme/handler/thumb")).status == 200


async def test_a_cursor_of_another_tenant_shows_nothing_of_it(site: Site) -> None:
    await site.add(*"abc")
    await site.run()
    cursor = (await site.get("/acme/results?limit=1")).json["cursor"]
    answer = await site.get(f"/other/results?cursor={cursor}", key="other")
    assert answer.status == 422 or answer.json["jobs"] == []


async def test_each_route_needs_its_scope_and_no_other_will_do(site: Site) -> None:
    scopes = {"submit", "read", "manage", "handlers", "work", "secrets"}
    for scope in sorted(scopes):
        others = sorted(scopes - {scope})
        answer = await site.post("/admin/tenants/acme/keys", key="operator", json={"scopes": others})
        for route in OF_TENANTS:
            if route.scope == scope:
                refused = await site.call(route.method, at(route, "acme"), key=answer.json["key"], json={})
                assert (refused.status, refused.code) == (403, "forbidden"), name(route)


async def test_a_revoked_key_works_elsewhere_only_for_the_life_of_the_cache(site: Site) -> None:
    assert (await site.get("/acme/results")).status == 200
    await site.store.delete_key("acme", site.keys["acme"].split("_")[1])
    assert (await site.get("/acme/results")).status == 200, "verified a moment ago"
    site.clock.advance(5)
    assert (await site.get("/acme/results")).status == 401


async def test_with_the_store_away_verified_keys_go_on_and_others_do_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.add("x")

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(site.store, "get_key", away)
    site.clock.advance(60)
    assert await site.add("y"), "intake goes on into the journal"
    assert (await site.post("/other/job/a/add", key="other", data=b"x")).status == 503, "never seen before"
    site.clock.advance(3600)
    assert (await site.post(ADD, data=b"z")).status == 503, "not for ever"


async def test_a_key_has_so_many_requests(tmp_path: Path) -> None:
    settings = WebSettings(port=0, requests_per_s=0.001, requests_burst=3, shutdown_s=1)
    async with open_site(tmp_path, settings=settings) as site:
        assert [(await site.get("/acme/results")).status for _ in range(4)] == [200, 200, 200, 429]
        answer = await site.get("/acme/results")
        assert answer.code == "rate_limited"
        assert int(answer.headers["Retry-After"]) >= 1
        assert (await site.get("/other/results", key="other")).status == 200, "each key has its own"


async def test_a_tenants_own_rate_overrides_the_default(site: Site) -> None:
    limits = {"requests_per_s": 0.001, "requests_burst": 1}
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
    assert [(await site.get("/acme/results")).status for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(("limits", "quota"), [({"max_jobs": 3}, "max_jobs"), ({"max_bytes": 9}, "max_bytes")])
async def test_quotas_of_jobs_and_bytes(site: Site, limits: dict[str, int], quota: str) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": limits})
    await site.add("abc", "def")
    for path, body in [(ADD, b"ghi\njkl"), (ADD + "?idempotency_key=k", b"ghi\njkl"), (ADD + "?unique=u", b"x" * 10)]:
        if quota == "max_jobs" and "unique" in path:
            continue
        answer = await site.post(path, data=body)
        assert (answer.status, answer.code) == (429, "quota_exceeded"), path
        assert answer.json["error"]["detail"]["quota"] == quota
        assert "Retry-After" in answer.headers
    assert await site.add("g")
    await site.run()
    await site.store.delete_jobs(
        "acme", [job["id"] for job in (await site.get("/acme/results")).json["jobs"]], now_ms=site.clock.now_ms()
    )
    site.clock.advance(2)
    assert await site.add("abc"), "room again"


async def test_metrics_need_a_key(site: Site) -> None:
    assert (await site.get("/metrics", key=None)).status == 401
    metrics_only = (await site.post("/admin/keys", key="operator", json={"scopes": ["metrics"]})).json["key"]
    assert (await site.get("/metrics", key=metrics_only)).status == 200
    assert (await site.get("/admin/tenants", key=metrics_only)).status == 403


async def test_metrics_are_public_when_told_so(tmp_path: Path) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, is_metrics_public=True)) as site:
        assert (await site.get("/metrics", key=None)).status == 200
        assert (await site.get("/admin/health", key=None)).status == 401

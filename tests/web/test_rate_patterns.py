"""Limits on patterns of rate domains over HTTP, and what `why` says of a job that one holds up."""

from tests.support.pages import visitor
from tests.support.web import SYSID, T0, Site

ADD = "/acme/job/thumb/add"


async def test_a_pattern_is_set_listed_and_deleted_like_a_name(site: Site) -> None:
    for name in ("mail:*", "api", "a%3Fb"):
        assert (await site.call("PUT", f"/acme/rate/{name}", json={"rate_per_s": 2, "burst": 5})).status == 200
    rows = (await site.get("/acme/rate")).json["domains"]
    assert {row["domain"]: row["is_pattern"] for row in rows} == {"a?b": True, "api": False, "mail:*": True}
    refused = await site.call("PUT", "/acme/rate/m*l*", json={"rate_per_s": 2})
    assert (refused.status, "one *" in refused.body.decode()) == (422, True)
    assert (await site.call("DELETE", "/acme/rate/a%3Fb")).status == 200
    assert (await site.call("DELETE", "/acme/rate/a%3Fb")).status == 404


async def test_why_names_the_pattern_and_when_the_next_token_comes(site: Site) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=python", data=b"return 1")
    await site.store.reserve_sysid(info='{"languages": ["python"]}', lease_ms=60_000, now_ms=T0)
    await site.call("PUT", "/acme/rate/mail:*", json={"rate_per_s": 0.1})
    _, second = await site.add("x", "y", path=ADD + "?domain=mail:ada")
    (other,) = await site.add("z", path=ADD + "?domain=mail:bob")
    await site.intake.flush()
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=T0)
    assert job.id != second
    answer = (await site.get(f"/acme/job/{second}/why")).json
    detail = {"domain": "mail:ada", "limit": "mail:*", "until_ms": T0 + 10_000}
    assert (answer["reason"], answer["detail"]) == ("rate_domain", detail)
    assert "mail:* allows 6/m for each domain" in answer["text"]
    answer = (await site.get(f"/acme/job/{other}/why")).json
    assert answer["reason"] == "in_line"
    assert answer["text"].endswith("; jobs of its rate domain mail:bob start at 6/m")


async def test_the_limit_that_holds_for_a_domain_is_found_by_its_name_or_by_a_pattern(site: Site) -> None:
    for name, rate in (("api", 2), ("mail:*", 0.1)):
        assert (await site.call("PUT", f"/acme/rate/{name}", json={"rate_per_s": rate, "burst": 5})).status == 200
    await site.add("x", path=ADD + "?domain=mail:ada")
    await site.intake.flush()
    assert await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=T0)
    found = (await site.get("/acme/rate/mail:ada")).json
    assert (found["domain"], found["limit"], found["rate_per_s"], found["tokens"]) == ("mail:ada", "mail:*", 0.1, 4)
    assert (await site.get("/acme/rate/mail:bob")).json["tokens"] == 5
    assert (await site.get("/acme/rate/api")).json["limit"] == "api"
    refused = await site.get("/acme/rate/other")
    assert (refused.status, "has no limit" in refused.json["error"]["message"]) == (404, True)


async def test_limits_are_set_shown_and_deleted_on_their_page(site: Site) -> None:
    page = "/ui/t/acme/rates"
    async with visitor(site, "acme") as acme:
        assert "No limits yet." in (await acme.get(page)).text
        for name, rate, burst in (("api", "2.5", ""), ("m<b>:*", "7/h", "3")):
            form = {"name": name, "rate_per_s": rate, "burst": burst}
            assert (await acme.post(page, form)).status == 303
        shown = (await acme.get(page)).text
        assert "m&lt;b&gt;:*" in shown
        assert ("2.5/s" in shown, "7/h" in shown) == (True, True)
        assert ("2.5" in shown, "pattern</span>" in shown, "<b>:*" in shown) == (True, True, False)
        assert "by the pattern <bdi" in (await acme.get(f"{page}?domain=m%3Cb%3E:x")).text
        assert "No limit holds for" in (await acme.get(f"{page}?domain=other")).text
        wrong = [{"name": "api", "rate_per_s": text, "burst": "1"} for text in ("x", "nan", "-1", "1e9")]
        wrong += [{"name": "", "rate_per_s": "1", "burst": "1"}, {"name": "a", "rate_per_s": "1", "burst": "x"}]
        for form in wrong:
            refused = await acme.post(page, form)
            assert (refused.status, "banner bad" in refused.text) == (422, True), form
            assert 'value="' + form["rate_per_s"] + '"' in refused.text, "what was typed stays"
        assert (await acme.post(f"{page}/delete", {"name": "api"})).status == 303
        assert (await acme.post(f"{page}/delete", {"name": "api"})).status == 404
        assert (await acme.post(f"{page}/delete", {"name": "m<b>:*"})).status == 303
    assert (await site.get("/acme/rate")).json["domains"] == []

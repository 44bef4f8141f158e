"""Limits on patterns of rate domains over HTTP, and what `why` says of a job that one holds up."""

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
    assert "mail:* allows 0.1 a second for each domain" in answer["text"]
    answer = (await site.get(f"/acme/job/{other}/why")).json
    assert answer["reason"] == "in_line"
    assert answer["text"].endswith("; jobs of its rate domain mail:bob start at 0.1 a second")

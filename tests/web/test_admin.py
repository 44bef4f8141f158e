"""The operator's side: tenants, keys, daemons, the audit log; and what it leaves behind."""

import asyncio
import json
from pathlib import Path
from unittest.mock import patch

import pytest

from functory.daemon.operator_key import keep_operator_key
from functory.operations.keyring import principal_of
from functory.operations.keys import create_key
from tests.support.web import SYSID, T0, Site, open_site

TENANTS = "/admin/tenants"


async def admin(site: Site, method: str, path: str, **more: object) -> object:
    answer = await site.call(method, path, key="operator", **more)
    assert answer.status < 300, answer.body
    return answer.json


async def test_the_life_of_a_tenant(site: Site) -> None:
    made = await admin(site, "POST", TENANTS, json={"name": "new_one", "weight": 3, "limits": {"max_jobs": 2}})
    assert isinstance(made, dict)
    assert (made["name"], made["weight"], made["limits"]["max_jobs"]) == ("new_one", 3, 2)
    assert (await site.post(TENANTS, key="operator", json={"name": "new_one"})).code == "conflict"
    changed = await admin(site, "PATCH", f"{TENANTS}/new_one", json={"weight": 9})
    assert isinstance(changed, dict)
    assert (changed["weight"], changed["limits"]["max_jobs"]) == (9, 2)
    names = await admin(site, "GET", TENANTS)
    assert isinstance(names, dict)
    assert [it["name"] for it in names["tenants"]] == ["acme", "new_one", "other"]
    stored = {"usage": {"jobs": 0, "size_bytes": 0, "handlers": 0}}
    assert await admin(site, "GET", f"{TENANTS}/new_one") == changed | stored
    assert (await site.get(f"{TENANTS}/nobody", key="operator")).status == 404
    assert (await site.call("DELETE", f"{TENANTS}/nobody", key="operator")).status == 404


@pytest.mark.parametrize("name", ["admin", "jobber", "Upper", "a-b", "", "a" * 33, "_a", "a\n", "healthz"])
async def test_a_tenant_needs_a_plain_name_that_is_no_path_of_ours(site: Site, name: str) -> None:
    assert (await site.post(TENANTS, key="operator", json={"name": name})).status == 422


async def test_a_suspended_tenant_reads_and_nothing_else(site: Site) -> None:
    (job_id,) = await site.add("x")
    await admin(site, "POST", f"{TENANTS}/acme/pause")
    assert (await site.get(f"/acme/job/{job_id}")).status == 200
    for method, path in [
        ("POST", "/acme/job/thumb/add"),
        ("POST", f"/acme/job/{job_id}/cancel"),
        ("PUT", "/acme/handler/up?lang=sh"),
        ("POST", "/acme/handler/up/invoke"),
        ("POST", "/jobber/queue"),
    ]:
        answer = await site.call(method, path, data=b"x")
        assert (answer.status, answer.code) == (403, "tenant_suspended"), path
    await admin(site, "POST", f"{TENANTS}/acme/resume")
    assert await site.add("y")


async def test_a_deleted_tenant_is_gone_with_its_data_and_its_keys(site: Site) -> None:
    await site.add("x", "y")
    await site.call("PUT", "/acme/handler/up?lang=sh", data=b"true")
    gone = await admin(site, "DELETE", f"{TENANTS}/acme")
    assert isinstance(gone, dict)
    assert gone["more"] is False
    answer = await site.post("/acme/job/thumb/add", data=b"x")
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert (await site.store.get_usage("acme")) == (0, 0, 0)
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0, "nothing of it was still on its way"


async def test_nobody_acts_for_a_tenant_that_is_being_deleted(site: Site) -> None:
    """Its keys are gone; but some have none, such as the callers of a port that is one tenant's."""
    await site.add("x", "y", "z")
    await site.intake.flush()
    assert (await site.store.delete_tenant("acme", limit=1)).more
    assert await principal_of(site.service, "acme", "-", frozenset({"read"})) is None
    assert await principal_of(site.service, "other", "-", frozenset({"read"})) is not None


async def test_the_life_of_a_key(site: Site) -> None:
    made = await admin(site, "POST", f"{TENANTS}/acme/keys", json={"scopes": ["read"], "label": "for the board"})
    assert isinstance(made, dict)
    text, key_id = made["key"], made["id"]
    assert text.startswith(f"fk_{key_id}_")
    assert len(text.removeprefix(f"fk_{key_id}_")) * 6 >= 160, "six bits to a character"
    assert (await site.get("/acme/results", key=text)).status == 200
    answer = await site.post("/acme/job/thumb/add", key=text, data=b"x")
    assert (answer.status, answer.code, answer.json["error"]["detail"]) == (403, "forbidden", {"scope": "submit"})
    listed = await site.get(f"{TENANTS}/acme/keys", key="operator")
    assert {key["label"] for key in listed.json["keys"]} == {"", "for the board"}
    stored = await site.store.get_key(key_id)
    assert stored is not None
    secret = text.split("_", 2)[2]
    for hidden in (secret, stored.hash.hex()):
        assert hidden.encode() not in listed.body
    rotated = await admin(site, "POST", f"{TENANTS}/acme/keys/{key_id}/rotate", json={"overlap_s": 60})
    assert isinstance(rotated, dict)
    assert (rotated["scopes"], rotated["label"]) == (["read"], "for the board")
    for key in (text, rotated["key"]):
        assert (await site.get("/acme/results", key=key)).status == 200
    site.clock.advance(61)
    assert (await site.get("/acme/results", key=text)).status == 401
    assert (await site.get("/acme/results", key=rotated["key"])).status == 200
    await admin(site, "DELETE", f"{TENANTS}/acme/keys/{rotated['id']}")
    assert (await site.get("/acme/results", key=rotated["key"])).status == 401, "at once on this daemon"
    assert (await site.call("DELETE", f"{TENANTS}/acme/keys/{key_id}x", key="operator")).status == 404


async def test_a_key_is_rotated_and_revoked_only_through_its_own_tenant(site: Site) -> None:
    (key,) = (await site.get(f"{TENANTS}/acme/keys", key="operator")).json["keys"]
    for method, path in [("POST", f"{key['id']}/rotate"), ("DELETE", key["id"])]:
        assert (await site.call(method, f"{TENANTS}/other/keys/{path}", key="operator", json={})).status == 404
        assert (await site.call(method, f"/admin/keys/{path}", key="operator", json={})).status == 404
    assert (await site.get("/acme/results")).status == 200


async def test_no_tenants_key_can_be_given_an_operators_scope(site: Site) -> None:
    for path, scopes in [(f"{TENANTS}/acme/keys", ["operator"]), ("/admin/keys", ["submit"])]:
        assert (await site.post(path, key="operator", json={"scopes": scopes})).status == 422
    assert (await site.post(f"{TENANTS}/nobody/keys", key="operator", json={})).status == 404


async def test_an_expired_key_is_not_good(site: Site) -> None:
    made = await admin(site, "POST", f"{TENANTS}/acme/keys", json={"expires_s": 2})
    assert isinstance(made, dict)
    assert (await site.get("/acme/results", key=made["key"])).status == 200
    site.clock.advance(2)
    assert (await site.get("/acme/results", key=made["key"])).status == 401, "though it was verified a moment ago"


async def test_the_successor_of_a_key_lives_for_as_long(site: Site) -> None:
    path = f"{TENANTS}/acme/keys"
    made = await admin(site, "POST", path, json={"expires_s": 100})
    assert isinstance(made, dict)
    site.clock.advance(40)
    rotated = await admin(site, "POST", f"{path}/{made['id']}/rotate", json={"overlap_s": 10})
    assert isinstance(rotated, dict)
    assert rotated["expires_ms"] == T0 + 140_000
    shorter = await admin(site, "POST", f"{path}/{rotated['id']}/rotate", json={"expires_s": 5})
    assert isinstance(shorter, dict)
    assert shorter["expires_ms"] == T0 + 45_000
    site.clock.advance(10)
    for key in (made, shorter):
        answer = await site.post(f"{path}/{key['id']}/rotate", key="operator", json={"expires_s": 1000})
        assert (answer.status, answer.code) == (409, "conflict"), "it has expired"
    listed = (await site.get(path, key="operator")).json["keys"]
    assert len(listed) == 4, "with the one that was there before: none was made for those"


async def test_the_successor_of_a_key_that_ends_before_its_beginning_asks_for_its_length(site: Site) -> None:
    path, month_s = f"{TENANTS}/acme/keys", 30 * 86_400
    site.clock.advance(month_s)
    made = await admin(site, "POST", path, json={})
    assert isinstance(made, dict)
    site.clock.advance(-month_s)  # the clock had been ahead
    await admin(site, "POST", f"{path}/{made['id']}/rotate", json={"overlap_s": 60})
    again = f"{path}/{made['id']}/rotate"
    answer = await site.post(again, key="operator", json={})
    assert (answer.status, answer.code) == (409, "conflict")
    assert "expires_s" in answer.json["error"]["message"]
    lasting = await admin(site, "POST", again, json={"expires_s": 100})
    assert isinstance(lasting, dict)
    assert lasting["expires_ms"] == T0 + 100_000


async def test_pause_resume_and_quit_of_a_daemon(site: Site) -> None:
    await site.store.reserve_sysid(info='{"role": "all"}', lease_ms=60_000, now_ms=T0)
    daemon = (await site.get("/admin/daemons", key="operator")).json["daemons"][0]
    assert daemon["info"] == {"role": "all"}
    await admin(site, "POST", f"/admin/daemons/{daemon['sysid']}/pause")
    assert (await site.get("/admin/daemons", key="operator")).json["daemons"][0]["paused"] is True
    health = (await site.get("/admin/health", key="operator")).json
    assert health["is_paused"] is False, "another daemon hears of it from the store"
    assert (await site.post("/admin/daemons/zz/pause", key="operator")).status == 404
    assert (await site.post("/admin/daemons/NO!/pause", key="operator")).status == 422
    site.control.sysid = daemon["sysid"]
    await admin(site, "POST", "/stop")
    assert site.control.is_paused is True
    await admin(site, "POST", "/start")
    assert (await site.get("/admin/health", key="operator")).json["is_paused"] is False
    assert (await site.post("/quit", key="operator")).status == 202
    assert site.control.has_quit is True


async def test_pause_of_a_tenants_type_by_the_operator(site: Site) -> None:
    await site.add("x")
    await site.intake.flush()
    await admin(site, "POST", f"{TENANTS}/acme/types/thumb/pause")
    assert await site.store.get_waiting_jobtypes(now_ms=T0) == []
    await admin(site, "POST", f"{TENANTS}/acme/types/thumb/resume")
    assert len(await site.store.get_waiting_jobtypes(now_ms=T0)) == 1
    for verb in ("pause", "resume"):
        answer = await site.post(f"{TENANTS}/nobody/types/thumb/{verb}", key="operator")
        assert (answer.status, answer.code) == (404, "not_found")
    assert (await site.get("/admin/audit?tenant=nobody", key="operator")).json["events"] == []


async def test_everything_an_operator_does_is_in_the_audit_log(site: Site) -> None:
    await admin(site, "POST", TENANTS, json={"name": "fresh", "limits": {"network": True}})
    made = await admin(site, "POST", f"{TENANTS}/fresh/keys", json={})
    assert isinstance(made, dict)
    await admin(site, "POST", f"{TENANTS}/fresh/keys/{made['id']}/rotate", json={})
    await admin(site, "DELETE", f"{TENANTS}/fresh/keys/{made['id']}")
    await site.call("PUT", "/acme/handler/up?lang=sh", data=b"true")
    page = await site.get("/admin/audit?tenant=fresh", key="operator")
    assert [event["action"] for event in page.json["events"]] == [
        "key.revoke", "key.rotate", "key.create", "key.create", "tenant.create",
    ]  # fmt: skip
    detail = json.loads(page.json["events"][-1]["detail"])
    assert json.loads(detail["limits"])["network"] is True, "who gave it the network is on record"
    operator_id = site.keys["operator"].split("_")[1]
    assert {event["actor"] for event in page.json["events"]} == {operator_id}
    assert made["key"].split("_", 2)[2].encode() not in page.body
    first = await site.get("/admin/audit?limit=1", key="operator")
    assert first.json["events"][0]["action"] == "handler.put"
    more = await site.get(f"/admin/audit?limit=1&cursor={first.json['cursor']}", key="operator")
    assert more.json["events"][0]["action"] == "key.revoke"
    assert (await site.get("/admin/audit?cursor=x", key="operator")).status == 422


async def test_health_in_words_is_for_the_operator(site: Site) -> None:
    site.control.problems = {"store": "cannot reach /secret"}
    health = (await site.get("/admin/health", key="operator")).json
    assert health["problems"] == {"store": "cannot reach /secret"}
    assert (health["sysid"], health["languages"]) == (SYSID, ["python", "sh"])
    open_answer = await site.get("/readyz", key=None)
    assert (open_answer.status, open_answer.json) == (503, {"status": "failing", "problems": ["store"]})
    assert (await site.get("/healthz", key=None)).status == 200


async def forget_operators(site: Site) -> None:
    for key in await site.store.list_keys(""):
        await site.store.delete_key("", key.key_id)


async def works(site: Site, folder: Path) -> bool:
    return (await site.get(TENANTS, key=await text_of(folder / "operator.key"))).status == 200


async def text_of(file: Path) -> str:
    return (await asyncio.to_thread(file.read_text)).strip()


async def test_the_first_start_makes_one_operators_key(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        assert "where the first daemon" in await keep_operator_key(site.service, tmp_path), "there is one"
        await forget_operators(site)
        assert "A new operator key" in await keep_operator_key(site.service, tmp_path)
        assert await works(site, tmp_path)
        assert (await asyncio.to_thread((tmp_path / "operator.key").stat)).st_mode & 0o777 == 0o600
        told = await keep_operator_key(site.service, tmp_path)
        assert told == f"The operator key is in {tmp_path}/operator.key"


async def test_the_key_of_another_store_is_not_written_over(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await forget_operators(site)
        await asyncio.to_thread((tmp_path / "operator.key").write_text, "of a store that is away\n")
        told = await keep_operator_key(site.service, tmp_path)
        assert await text_of(tmp_path / told.partition("the old file is ")[2]) == "of a store that is away"
        assert await works(site, tmp_path)


async def test_a_key_that_cannot_administer_or_has_expired_does_not_count(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await forget_operators(site)
        await create_key(site.service, "test", "", scopes=["metrics"])
        await create_key(site.service, "test", "", expires_s=0)
        assert "A new operator key" in await keep_operator_key(site.service, tmp_path)
        assert await works(site, tmp_path)


async def test_a_key_that_could_not_be_written_down_is_not_in_the_store(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await forget_operators(site)
        with pytest.raises(OSError, match="operator"), patch.object(Path, "rename", side_effect=OSError("operator")):
            await keep_operator_key(site.service, tmp_path)
        assert await site.store.list_keys("") == []
        assert "A new operator key" in await keep_operator_key(site.service, tmp_path)


async def test_daemons_that_start_together_make_one_key(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await forget_operators(site)
        told = await asyncio.gather(*(keep_operator_key(site.service, tmp_path) for _ in range(4)))
        assert len([each for each in told if "A new operator key" in each]) == 1
        assert len(await site.store.list_keys("")) == 1

"""Alert rules over HTTP: set, list, delete, mute, test; who may, and what is refused."""

import asyncio
import itertools
import json
from typing import Any

import pytest

from functory.operations.alerts import MAX_ALERTS
from functory.operations.keys import create_key
from store.base import AlertRecord, Code
from tests.support.web import T0, Site

ALERT = "/acme/alert/mail-fails"
FAILS = {"type": "mail*", "notify": "tell", "when": "failures", "more_than": 2, "window_s": 600}


async def set_rule(site: Site, path: str = ALERT, key: str = "acme", **changes: Any) -> Any:
    answer = await site.call("PUT", path, key=key, json=FAILS | changes)
    assert answer.status == 200, answer.body
    return answer.json


async def test_a_rule_is_set_shown_changed_and_deleted(site: Site) -> None:
    assert await set_rule(site) == {"created": True}
    shown = (await site.get(ALERT)).json
    assert {name: shown[name] for name in FAILS} == FAILS
    assert (shown["state"], shown["since_ms"], shown["fired_ms"], shown["trouble"]) == ("ok", T0, None, "")
    assert shown["condition"] == "more than 2 failures in 10 minutes"
    assert await set_rule(site, more_than=5) == {"created": False}
    (row,) = (await site.get("/acme/alert")).json["alerts"]
    assert (row["name"], row["more_than"]) == ("mail-fails", 5)
    assert (await site.call("DELETE", ALERT)).status == 200
    assert (await site.call("DELETE", ALERT)).status == 404
    assert (await site.get(ALERT)).status == 404
    assert (await site.get("/acme/alert")).json["alerts"] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"more_than": 1}, "more than 1 failure in 10 minutes"),
        ({"when": "backlog", "more_than": 1, "window_s": None}, "more than 1 job waits"),
        ({"when": "backlog", "more_than": 2, "window_s": None}, "more than 2 jobs wait"),
    ],
)
async def test_a_condition_is_a_sentence(site: Site, changes: dict[str, Any], words: str) -> None:
    await set_rule(site, **changes)
    assert (await site.get(ALERT)).json["condition"] == words


async def test_what_changes_a_rule_is_on_record(site: Site) -> None:
    await set_rule(site)
    await site.post(f"{ALERT}/mute", json={"for_s": 60})
    await site.post(f"{ALERT}/test")
    await site.call("DELETE", ALERT)
    events = (await site.get("/admin/audit?tenant=acme", key="operator")).json["events"]
    assert [it["action"] for it in events][:4] == ["alert.delete", "alert.test", "alert.mute", "alert.set"]
    assert json.loads(events[3]["detail"])["alert"] == "mail-fails"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"type": "tell"}, "notify"),
        ({"type": "mail["}, "type"),
        ({"type": "mail\x1b*"}, "type"),
        ({"type": "a b"}, "type"),
        ({"type": "*" * 128}, "type"),
        ({"notify": "tell*"}, "notify"),
        ({"when": "failures", "window_s": None}, "window_s"),
        ({"when": "silent", "window_s": None}, "window_s"),
        ({"when": "waiting"}, "longer_than_s"),
        ({"when": "no_worker"}, "longer_than_s"),
        ({"when": "no_worker", "longer_than_s": 29}, "longer_than_s"),
        ({"when": "quota", "share_above": 0.5, "window_s": None}, "type"),
        ({"when": "quota", "type": "*"}, "share_above"),
        ({"when": "rain"}, "when"),
        ({"when": "backlog", "share_above": 0.5}, "share_above"),
        ({"share_above": 1}, "share_above"),
        ({"window_s": 59}, "window_s"),
        ({"window_s": 604_801}, "window_s"),
        ({"calm_s": 59}, "calm_s"),
        ({"for_s": -1}, "for_s"),
        ({"more_than": -1}, "more_than"),
        ({"unknown": 1}, "unknown"),
    ],
)
async def test_what_is_no_rule_is_refused(site: Site, changes: dict[str, Any], field: str) -> None:
    answer = await site.call("PUT", ALERT, json=FAILS | changes)
    assert answer.status == 422, answer.body
    assert answer.json["error"]["detail"]["field"] == field
    assert (await site.get("/acme/alert")).json["alerts"] == []


async def test_names_are_those_of_types(site: Site) -> None:
    for path in ("/acme/alert/a%20b", "/acme/alert/-a", f"/acme/alert/{'a' * 128}"):
        assert (await site.call("PUT", path, json=FAILS)).status == 422, path
        assert (await site.call("DELETE", path)).status == 404, path
        assert (await site.post(f"{path}/test")).status == 404, path


async def test_a_tenant_has_so_many_rules_and_may_change_each(site: Site) -> None:
    for number in range(MAX_ALERTS):
        await set_rule(site, f"/acme/alert/rule{number}")
    answer = await site.call("PUT", "/acme/alert/more", json=FAILS)
    assert (answer.status, answer.code) == (429, "quota_exceeded")
    assert await set_rule(site, "/acme/alert/rule7", more_than=9) == {"created": False}
    assert await set_rule(site, "/other/alert/more", key="other") == {"created": True}


async def test_rules_that_are_made_at_the_same_time_are_no_more_than_a_tenant_may_have(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MAX_ALERTS - 1):
        await set_rule(site, f"/acme/alert/rule{number}")
    store, both, looks = site.service.store, asyncio.Barrier(2), itertools.count()
    list_alerts = store.list_alerts

    async def list_before_either_is_made(tenant: str) -> list[AlertRecord]:
        found = await list_alerts(tenant)
        if next(looks) < both.parties:
            await both.wait()
        return found

    monkeypatch.setattr(store, "list_alerts", list_before_either_is_made)
    answers = await asyncio.gather(*(site.call("PUT", f"/acme/alert/{name}", json=FAILS) for name in ("a", "b")))
    assert 429 in {answer.status for answer in answers}
    made = [answer for answer in answers if answer.status == 200]
    assert len((await site.get("/acme/alert")).json["alerts"]) == MAX_ALERTS - 1 + len(made)


async def test_rules_are_their_tenants_own(site: Site) -> None:
    await set_rule(site)
    assert (await site.get("/acme/alert", key="other")).status == 403
    assert (await site.get("/other/alert", key="other")).json["alerts"] == []
    assert (await site.call("DELETE", "/other/alert/mail-fails", key="other")).status == 404
    _, reader = await create_key(site.service, "test", "acme", scopes=["read"])
    assert (await site.get("/acme/alert", key=reader)).status == 200
    for method, path, body in (("PUT", ALERT, FAILS), ("DELETE", ALERT, None), ("POST", f"{ALERT}/test", None)):
        assert (await site.call(method, path, key=reader, json=body)).status == 403


async def test_a_test_adds_one_job_that_says_so(site: Site) -> None:
    await set_rule(site)
    job_id = (await site.post(f"{ALERT}/test")).json["id"]
    job = (await site.get(f"/acme/job/{job_id}")).json
    payload = json.loads(job["payload"])
    assert job["type"] == "tell"
    assert payload == {
        "alert": "mail-fails",
        "state": "test",
        "tenant": "acme",
        "type": "mail*",
        "condition": {"when": "failures", "more_than": 2, "window_s": 600},
        "value": 0,
        "since_ms": 0,
        "at_ms": T0,
        "text": "TEST mail-fails: mail*: more than 2 failures in 10 minutes",
    }


async def test_a_mute_has_an_end_and_can_be_ended(site: Site) -> None:
    await set_rule(site)
    assert (await site.post(f"{ALERT}/mute", json={"for_s": 3600})).json == {"until_ms": T0 + 3_600_000}
    assert (await site.get(ALERT)).json["muted_until_ms"] == T0 + 3_600_000
    await set_rule(site, more_than=3)
    assert (await site.get(ALERT)).json["muted_until_ms"] == T0 + 3_600_000, "a change leaves how it stands"
    site.clock.advance(3601)
    assert (await site.get(ALERT)).json["muted_until_ms"] is None
    await site.post(f"{ALERT}/mute", json={"for_s": 3600})
    assert (await site.post(f"{ALERT}/mute", json={"for_s": 0})).json == {"until_ms": None}
    assert (await site.post("/acme/alert/none/mute", json={"for_s": 1})).status == 404


async def test_rules_go_with_their_tenant(site: Site) -> None:
    await set_rule(site)
    await site.run(1, Code.FAILED)
    assert (await site.call("DELETE", "/admin/tenants/acme", key="operator")).status == 200
    assert await site.store.list_alert_tenants() == []

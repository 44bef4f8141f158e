"""Handlers over HTTP, in both spellings."""

import asyncio
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

import functory.operations.handlers
from functory.operations.packages import with_packages
from functory.operations.service import OperationSettings
from handlers.hosts import parse_patterns
from journal.options import JournalOptions
from runner.errors import ContextEndedError
from runner.targets import Targets
from store.base import NewHandler
from tests.support.web import T0, Site, open_site

BODY = b"return payload.upper()"


async def test_register_look_at_and_delete_in_both_spellings(site: Site) -> None:
    for put, get, delete in [
        (
            ("POST", "/acme/handler/add/up/add?method=python"),
            "/acme/handler/get/up",
            ("POST", "/acme/handler/del/up/delete"),
        ),
        (("PUT", "/acme/handler/up?lang=python"), "/acme/handler/up", ("DELETE", "/acme/handler/up")),
    ]:
        answer = await site.call(*put, data=BODY)
        assert answer.status == 200, answer.body
        assert answer.json["handler"]["body"] == BODY.decode()
        assert (await site.get(get)).json == answer.json
        assert (await site.call(*delete)).status == 200
        assert (await site.get(get)).status == 404
        assert (await site.call(*delete)).status == 404
    assert [jobtype for jobtype, _ in site.trial_runs.retired] == ["acme-up"] * 2
    assert site.control.wakes == 4


async def test_all_fields_travel_in_json(site: Site) -> None:
    fields = {
        "lang": "python",
        "body": "x",
        "before": "import json",
        "env": {"A": "b"},
        "timeout_s": 5,
        "memory_mb": 64,
    }
    answer = await site.call("PUT", "/acme/handler/up", json=fields)
    assert answer.json["handler"] | fields == answer.json["handler"]
    assert answer.json["version"] == 1
    assert (await site.call("PUT", "/acme/handler/up", json=fields)).json["version"] == 1, "the same again is no change"


async def test_versions_and_rollback(site: Site) -> None:
    for body in (b"one", b"two"):
        await site.call("PUT", "/acme/handler/up?lang=python", data=body)
    versions = (await site.get("/acme/handler/up/versions")).json["handlers"]
    assert [(row["version"], row["current"]) for row in versions] == [(2, True), (1, False)]
    back = await site.post("/acme/handler/up/rollback", json={"version": 1})
    assert (back.json["version"], back.json["restored_from"], back.json["handler"]["body"]) == (3, 1, "one")
    assert (await site.get("/acme/handler/up?version=2")).json["handler"]["body"] == "two"
    assert (await site.post("/acme/handler/up/rollback", json={"version": 9})).status == 404
    assert (await site.get("/acme/handler/never/versions")).status == 404
    (row,) = (await site.get("/acme/handler")).json["handlers"]
    assert (row["type"], row["version"], row["lang"]) == ("up", 3, "python")


async def test_a_version_that_cannot_be_read_is_replaced_and_deleted_like_any(site: Site) -> None:
    unreadable = b'{"lang":"python","body":"x","made_up":1}'  # as a newer version of the program may have written it
    for method, address in (("PUT", "/acme/handler/up?lang=python"), ("DELETE", "/acme/handler/up")):
        await site.store.set_handler("acme", NewHandler("acme-up", "python", unreadable, T0))
        answer = await site.call(method, address, data=BODY)
        assert answer.status == 200, answer.body


async def test_what_could_not_be_read_again_is_not_saved(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functory.operations.handlers, "encode_handler", lambda _: b'{"lang":"python","made_up":1}')
    assert (await site.call("PUT", "/acme/handler/up?lang=python", data=BODY)).status == 422
    assert (await site.get("/acme/handler/up")).status == 404


@pytest.mark.parametrize(
    ("meanwhile", "told", "left"),
    [
        (("PUT", "/acme/handler/up?lang=python"), "asked for after this one", "newer"),
        (("DELETE", "/acme/handler/up"), "was deleted while this one was being saved", None),
        (("POST", "/acme/handler/up/rollback"), "asked for after this one", "first"),
    ],
)
async def test_a_save_that_takes_long_undoes_nothing_that_was_asked_for_later(
    site: Site, monkeypatch: pytest.MonkeyPatch, meanwhile: tuple[str, str], told: str, left: str | None
) -> None:
    for body in (b"first", b"second"):
        await site.call("PUT", "/acme/handler/up?lang=python", data=body)
    install, (method, address) = with_packages, meanwhile

    async def slowly(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(functory.operations.handlers, "with_packages", install)
        site.clock.advance(1)
        sent: dict[str, Any] = {"json": {"version": 1}} if method == "POST" else {"data": b"newer"}
        assert (await site.call(method, address, **sent)).status == 200
        return await install(*given, **named)

    monkeypatch.setattr(functory.operations.handlers, "with_packages", slowly)
    late = await site.call("PUT", "/acme/handler/up?lang=python", data=b"older")
    assert (late.status, late.code) == (409, "conflict")
    assert told in late.json["error"]["message"]
    assert (await site.get("/acme/handler/up")).json.get("handler", {}).get("body") == left
    site.clock.advance(1)
    again = await site.call("PUT", "/acme/handler/up?lang=python", data=b"older")
    assert (again.status, again.json["handler"]["body"]) == (200, "older")


@pytest.mark.parametrize(
    ("query", "more", "status", "code", "field"),
    [
        ("", {"data": BODY}, 422, "handler_invalid", "lang"),
        ("?lang=cobol", {"data": BODY}, 422, "handler_invalid", "lang"),
        ("?lang=python", {"data": b""}, 422, "handler_invalid", "body"),
        ("?lang=python", {"data": b"\xff"}, 400, "bad_request", None),
        ("?lang=python", {"data": b"a syntax error"}, 422, "handler_syntax", "body"),
        ("?lang=sh", {"json": {"lang": "python", "body": "x"}}, 422, "invalid_input", "lang"),
        ("", {"json": {"lang": "python", "body": "x", "secret": 1}}, 422, "handler_invalid", "secret"),
        ("", {"json": ["x"]}, 422, "invalid_input", None),
        ("?lang=python&x=1", {"data": BODY}, 422, "invalid_input", "x"),
    ],
)
async def test_a_bad_handler_is_refused_with_its_field(
    site: Site, query: str, more: dict[str, Any], status: int, code: str, field: str | None
) -> None:
    answer = await site.call("PUT", f"/acme/handler/up{query}", **more)
    assert (answer.status, answer.code) == (status, code), answer.body
    assert answer.json["error"]["detail"].get("field") == field
    assert (await site.get("/acme/handler")).json["handlers"] == []


async def test_workers_get_a_type_only_if_nothing_else_serves_it(site: Site) -> None:
    options = {"lease_s": 60, "max_attempts": 5}
    body = {"lang": "worker", "body": "a name", "options": options}
    assert (await site.call("PUT", "/acme/handler/resize?merge=true", json=body)).json["version"] == 1
    answer = await site.call("PUT", "/acme/handler/resize?merge=true", json={"lang": "worker", "timeout_s": 90})
    handler = answer.json["handler"]
    assert (handler["body"], handler["options"], handler["timeout_s"]) == ("a name", options, 90)
    changes = {"max_attempts": None, "max_per_key": 1}
    answer = await site.call("PUT", "/acme/handler/resize?merge=true", json={"lang": "worker", "options": changes})
    assert answer.json["handler"]["options"] == {"lease_s": 60, "max_per_key": 1}
    await site.call("PUT", "/acme/handler/up?lang=python", data=BODY)
    answer = await site.call("PUT", "/acme/handler/up?merge=true", json=body)
    assert (answer.status, answer.code) == (409, "conflict")
    assert "type up has a handler in python" in answer.json["error"]["message"]


async def test_settings_that_are_not_given_stay_with_merge_if_the_language_does(site: Site) -> None:
    settings = {"timeout_s": 20.0, "options": {"max_attempts": 3, "max_batch": 5}, "env": {"A": "1"}, "then": "next"}
    await site.call("PUT", "/acme/handler/up", json={"lang": "python", "body": "return 1", **settings})
    changes = {"lang": "python", "body": "return 2", "options": {"max_batch": 9}, "then": ""}
    merged = (await site.call("PUT", "/acme/handler/up?merge=true", json=changes)).json["handler"]
    assert (merged["body"], merged["timeout_s"], merged["env"], merged["then"]) == ("return 2", 20.0, {"A": "1"}, "")
    assert merged["options"] == {"max_attempts": 3, "max_batch": 9}
    alone = (await site.call("PUT", "/acme/handler/up?merge=true", json={"timeout_s": 5})).json["handler"]
    assert (alone["body"], alone["timeout_s"]) == ("return 2", 5.0)
    other = {"lang": "sh", "body": "true"}
    anew = (await site.call("PUT", "/acme/handler/up?merge=true", json=other)).json["handler"]
    assert (anew["timeout_s"], anew["options"], anew["env"]) == (60.0, {}, {})


async def test_a_first_handler_needs_its_text_also_with_merge(site: Site) -> None:
    answer = await site.call("PUT", "/acme/handler/up?merge=true", json={"timeout_s": 5})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "lang")


async def test_of_two_texts_at_the_same_time_the_later_one_stays_also_with_merge(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.call("PUT", "/acme/handler/up?lang=python", data=BODY)

    async def slowly(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(functory.operations.handlers, "with_packages", with_packages)
        site.clock.advance(1)
        newer = await site.call("PUT", "/acme/handler/up?merge=true", json={"lang": "python", "body": "return 3"})
        assert newer.status == 200, newer.body
        return await with_packages(*given, **named)

    monkeypatch.setattr(functory.operations.handlers, "with_packages", slowly)
    older = await site.call("PUT", "/acme/handler/up?merge=true", json={"lang": "python", "body": "return 2"})
    assert (older.status, older.code) == (409, "conflict")
    assert (await site.get("/acme/handler/up")).json["handler"]["body"] == "return 3"


async def test_a_handler_that_cannot_be_read_is_replaced_also_with_merge(site: Site) -> None:
    unreadable = NewHandler("acme-up", "python", b'{"lang":"python","body":"return 1","soon":1}', T0, "k")
    await site.store.set_handler("acme", unreadable)
    answer = await site.call("PUT", "/acme/handler/up?merge=true", json={"lang": "python", "body": "return 2"})
    assert (answer.status, answer.json["handler"]["body"]) == (200, "return 2")


async def test_workers_that_start_at_the_same_time_keep_the_fields_of_both(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.call("PUT", "/acme/handler/resize?merge=true", json={"lang": "worker"})

    async def slowly(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(functory.operations.handlers, "with_packages", with_packages)
        other = await site.call("PUT", "/acme/handler/resize?merge=true", json={"lang": "worker", "body": "a name"})
        assert other.status == 200, other.body
        return await with_packages(*given, **named)

    monkeypatch.setattr(functory.operations.handlers, "with_packages", slowly)
    answer = await site.call("PUT", "/acme/handler/resize?merge=true", json={"lang": "worker", "timeout_s": 90})
    assert (answer.status, answer.json["handler"]["timeout_s"], answer.json["handler"]["body"]) == (200, 90, "a name")


@pytest.mark.parametrize(
    "wrong", ['"colour": 1', '"timeout_s": 1e300', f'"timeout_s": {"9" * 1000}', '"memory_mb": 1e-300']
)
async def test_what_is_wrong_with_a_handler_is_told_alike_whatever_its_size(site: Site, wrong: str) -> None:
    headers = {"Content-Type": "application/json"}
    answers = []
    for size in (10, 10_000):
        text = f'{{"lang": "python", "body": "{"x" * size}", {wrong}}}'
        answers.append(await site.call("PUT", "/acme/handler/up", data=text.encode(), headers=headers))
    assert (answers[0].status, answers[0].code) == (422, "handler_invalid")
    assert answers[0].json["error"]["message"] == answers[1].json["error"]["message"]
    assert answers[0].json["error"]["detail"] == answers[1].json["error"]["detail"]


async def test_json_that_does_not_say_so_is_told_how_to(site: Site) -> None:
    """As `curl -d` sends it."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await site.call("PUT", "/acme/handler/up", data=b'{"lang": "python", "body": "x"}', headers=headers)
    assert (answer.status, answer.code) == (422, "handler_invalid")
    assert "lang: is missing; add ?lang=, or send Content-Type: application/json" in answer.json["error"]["message"]


async def test_the_place_of_a_syntax_error_is_told(site: Site) -> None:
    answer = await site.call("PUT", "/acme/handler/up?lang=python", data=b"syntax error")
    assert answer.json["error"]["detail"] == {"field": "body", "line": 3, "column": 7}


async def test_a_language_that_this_daemon_lacks_is_stored_unchecked(site: Site) -> None:
    """Another daemon may run it; `why` tells if none does."""
    assert (await site.call("PUT", "/acme/handler/up?lang=node", data=b"syntax error")).status == 200
    answer = await site.post("/acme/handler/up/invoke", json={})
    assert (answer.status, answer.code) == (422, "invalid_input")


async def test_invoke_runs_once_without_a_job(site: Site) -> None:
    await site.call("PUT", "/acme/handler/up?lang=python", data=BODY)
    answer = await site.post("/acme/handler/up/invoke", json={"payload": "hi"})
    assert answer.json == {
        "code": "ok",
        "exitcode": 200,
        "result": "echo hi",
        "result_encoding": "text",
        "log": "printed\n",
        "log_encoding": "text",
        "duration_ms": 1.5,
        "isolation": "L2",
        "new_jobs": [{"type": "mail", "payload": "/w==", "payload_encoding": "base64", "options": "unique=daily"}],
        "carried": None,
        "carried_encoding": "text",
    }
    site.trial_runs.log_dropped, site.trial_runs.carried = 7, b'{"last": 3}'
    answer = await site.post("/acme/handler/up/invoke", json={"payload": "hi"})
    assert (answer.json["carried"], answer.json["carried_encoding"]) == ('{"last": 3}', "text")
    assert answer.json["log"] == "[7 bytes before this were dropped]\nprinted\n"
    unsaved = {"payload_base64": "/w==", "handler": {"lang": "sh", "body": "cat"}}
    answer = await site.post("/acme/handler/new/invoke", json=unsaved)
    assert (answer.status, answer.json["result_encoding"]) == (200, "base64")
    assert (await site.get("/acme/handler/new")).status == 404
    assert (await site.post("/acme/handler/none/invoke", json={})).status == 404
    assert (await site.store.get_usage("acme")).jobs == 0


async def test_invoke_takes_the_payloads_that_jobs_may_have(site: Site) -> None:
    await site.call("PUT", "/acme/handler/up?lang=python", data=BODY)
    path = "/acme/handler/up/invoke"
    both = await site.post(path, json={"payload": "a", "payload_base64": "/w=="})
    assert (both.status, both.code) == (422, "invalid_input")
    longest = JournalOptions().max_payload_bytes
    assert (await site.post(path, data=b'{"payload": "%s"}' % (b"x" * longest))).status == 200
    longer = await site.post(path, data=b'{"payload": "%s"}' % (b"x" * (longest + 1)))
    assert (longer.status, longer.code) == (413, "limit_exceeded")


async def test_the_quota_of_handlers(site: Site) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"max_handlers": 1}})
    assert (await site.call("PUT", "/acme/handler/a?lang=sh", data=b"true")).status == 200
    assert (await site.call("PUT", "/acme/handler/a?lang=sh", data=b"false")).status == 200, "a change needs no room"
    answer = await site.call("PUT", "/acme/handler/b?lang=sh", data=b"true")
    assert (answer.status, answer.code) == (429, "quota_exceeded")


async def test_the_network_is_the_operators_to_give(site: Site) -> None:
    body = {"lang": "python", "body": "return None", "network": True}
    answer = await site.call("PUT", "/acme/handler/up", json=body)
    assert (answer.status, answer.json["error"]["code"]) == (403, "forbidden")
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"network": True}})
    site.clock.advance(60)
    assert (await site.call("PUT", "/acme/handler/up", json=body)).status == 200


async def test_hosts_are_the_operators_to_allow(tmp_path: Path) -> None:
    settings = OperationSettings(
        targets=Targets(parse_patterns("*.example.org, api.partner.example:8443"), (ip_network("10.0.5.0/24"),))
    )
    async with open_site(tmp_path, operations=settings) as site:
        open_address = "10.0.5.7:9000"  # at every port, and it needs no name
        hosts = ["api.example.org", "api.partner.example:8443", open_address]
        body = {"lang": "python", "body": "return None", "hosts": hosts}
        answer = await site.call("PUT", "/acme/handler/up", json=body)
        assert (answer.status, answer.json["handler"]["hosts"]) == (200, body["hosts"])
        for host in ("example.org", "api.example.org:25", "*", "api.partner.example", "10.0.0.1"):
            for method, path, sent in (
                ("PUT", "/acme/handler/up", {**body, "hosts": [host]}),
                ("POST", "/acme/handler/up/invoke", {"handler": {**body, "hosts": [host]}}),
            ):
                answer = await site.call(method, path, json=sent)
                assert (answer.status, answer.json["error"]["code"]) == (403, "forbidden")
                assert f"{host} is not among the hosts that handlers may call here" in answer.json["error"]["message"]
                assert "without a port: 80 and 443; private addresses" in answer.json["error"]["message"]


async def test_a_tenants_limit_narrows_what_its_handlers_may_list(site: Site) -> None:
    body = {"lang": "python", "body": "return None", "hosts": ["api.example.org"]}
    for limit, status in (("*.example.org", 200), ("", 403), ("*", 200), ("*:25", 403)):
        await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"hosts": limit}})
        site.clock.advance(60)
        assert (await site.call("PUT", "/acme/handler/up", json=body)).status == status, limit
    wrong = await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"hosts": "http://x"}})
    assert (wrong.status, wrong.json["error"]["detail"]["field"]) == (422, "limits.hosts")


async def test_hosts_need_a_daemon_whose_contexts_have_a_network_of_their_own(site: Site) -> None:
    body = {"lang": "python", "body": "return None", "hosts": ["api.example.org"]}
    site.control.isolation = "L1"
    answer = await site.call("PUT", "/acme/handler/up", json=body)
    assert answer.status == 422
    assert answer.json["error"]["detail"]["field"] == "hosts"
    assert "isolation L2); here the level is L1" in answer.json["error"]["message"]
    await site.store.reserve_sysid(info='{"isolation": "L3"}', lease_ms=60_000, now_ms=T0)
    assert (await site.call("PUT", "/acme/handler/up", json=body)).status == 200


async def test_why_names_the_network_that_contexts_lack(site: Site) -> None:
    body = {"lang": "python", "body": "return None", "hosts": ["api.example.org"]}
    await site.call("PUT", "/acme/handler/up", json=body)
    [job_id] = await site.add("x", path="/acme/job/up/add")
    site.control.isolation = "L1"
    why = (await site.get(f"/acme/job/{job_id}/why")).json
    assert why["reason"] == "hosts_unavailable"


async def test_a_language_that_does_not_start_is_refused_with_its_reason(site: Site) -> None:
    """Unless another daemon of the store runs it: then it is stored unchecked, as a language that is not installed."""
    site.control.unable = {"node": "its context ended with status 1: cannot open node.js"}
    answer = await site.call("PUT", "/acme/handler/up?lang=node", data=b"return 1")
    assert (answer.status, answer.json["error"]["code"]) == (503, "language_unavailable")
    assert "cannot open node.js" in answer.json["error"]["message"]
    invoked = await site.post("/acme/handler/up/invoke", json={"handler": {"lang": "node", "body": "return 1"}})
    assert (invoked.status, invoked.json["error"]["code"]) == (503, "language_unavailable")
    await site.store.reserve_sysid(info='{"languages": ["node"]}', lease_ms=60_000, now_ms=T0)
    assert (await site.call("PUT", "/acme/handler/up?lang=node", data=b"return 1")).status == 200


async def test_what_a_context_printed_before_it_ended_is_told(site: Site) -> None:
    site.trial_runs.refusal = ContextEndedError("exited with status 1: no such file")
    answer = await site.call("PUT", "/acme/handler/up?lang=python", data=b"return 1")
    assert (answer.status, answer.json["error"]["code"]) == (503, "context_ended")
    assert answer.json["error"]["message"] == "exited with status 1: no such file"


async def test_an_invocation_ends_when_its_client_has_gone(site: Site) -> None:
    site.trial_runs.is_stuck = True
    body = b'{"payload": "x", "handler": {"lang": "python", "body": "return 1"}}'
    head = (
        f"POST /acme/handler/thumb/invoke HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.keys['acme']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    port = site.listener.port
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    async with asyncio.timeout(20):
        await site.trial_runs.started.wait()
        assert not site.trial_runs.cancelled.is_set()
        writer.close()
        await site.trial_runs.cancelled.wait()

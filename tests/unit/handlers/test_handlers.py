"""The handler as tenants send it: strict reading, names, versions, and the table of languages."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.execution.handler_document import decode_handler, encode_handler
from handlers.errors import HandlerSyntaxError, InvalidHandlerError
from handlers.languages import BOOTSTRAPS, LANGUAGES
from handlers.model import JSON_NAMES, Handler
from handlers.packages import Lock, LockedPackage
from handlers.validation import parse_handler

WASM = base64.b64encode(b"\0asm\1\0\0\0").decode()


def test_the_least_that_is_needed() -> None:
    assert parse_handler({"lang": "python", "body": "pass"}) == Handler("python", "pass")


LOCK = Lock("1" * 32, "3.11", (LockedPackage("requests", "2.31.0", ("sha256:" + "0" * 64,)),))


def test_everything_that_can_be_said_comes_back_as_it_went() -> None:
    sent = {
        "lang": "python",
        "body": "return 1",
        "before": "import json",
        "beforeEach": "a = 1",
        "afterEach": "b = 2",
        "eid": "shared",
        "env": {"A": "1"},
        "secrets": ["API_KEY"],
        "timeout_s": 2.5,
        "memory_mb": 64,
        "network": False,
        "hosts": ["api.example.org", "*.example.org:8443"],
        "returns": "status",
        "then": "mail",
        "on_failure": "alarm",
        "keep": "failed",
        "domain": "mail:provider",
        "options": {"max_batch": 10},
        "lock": LOCK.to_json(),
        "entry": "main.py",
        "tree": "a" * 64,
    }
    assert parse_handler(sent).to_json() == sent
    assert list(sent) == list(JSON_NAMES.values())
    assert parse_handler(json.loads(json.dumps(parse_handler(sent).to_json()))) == parse_handler(sent)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"lang": "cobol"}, "lang"),
        ({"lang": None}, "lang"),
        ({"lang": ["python"]}, "lang"),
        ({"body": None}, "body"),
        ({"body": ""}, "body"),
        ({"body": " \n "}, "body"),
        ({"body": 7}, "body"),
        ({"body": "a\0b"}, "body"),
        ({"body": "\ud800"}, "body"),
        ({"body": "x" * (1 << 20) + "x"}, "body"),
        ({"before": 1}, "before"),
        ({"beforeEach": ["x"]}, "beforeEach"),
        ({"afterEach": "x" * 300_000}, "afterEach"),
        ({"before_each": "x"}, "before_each"),
        ({"timeout": 3}, "timeout"),
        ({"eid": "with blank"}, "eid"),
        ({"eid": "-x"}, "eid"),
        ({"eid": 3}, "eid"),
        ({"env": []}, "env"),
        ({"env": {"1A": "x"}}, "env"),
        ({"env": {"A=B": "x"}}, "env"),
        ({"env": {"A": 1}}, "env.A"),
        ({"env": {"LD_PRELOAD": "/x.so"}}, "env.LD_PRELOAD"),
        ({"env": {"FUNCTORY_X": "1"}}, "env.FUNCTORY_X"),
        ({"env": {f"A{n}": "" for n in range(65)}}, "env"),
        ({"env": {"A": "x" * 20_000, "B": "x" * 20_000}}, "env"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 3601}, "timeout_s"),
        ({"timeout_s": True}, "timeout_s"),
        ({"timeout_s": "5"}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"memory_mb": 8}, "memory_mb"),
        ({"memory_mb": 5000}, "memory_mb"),
        ({"memory_mb": 64.5}, "memory_mb"),
        ({"network": 1}, "network"),
        ({"network": "no"}, "network"),
        ({"hosts": "api.example.org"}, "hosts"),
        ({"hosts": [1]}, "hosts"),
        ({"hosts": ["http://api.example.org/"]}, "hosts"),
        ({"hosts": ["a.example:*"]}, "hosts"),
        ({"hosts": ["127.1"]}, "hosts"),
        ({"hosts": [f"a{n}.example" for n in range(33)]}, "hosts"),
        ({"hosts": ["a.example"], "network": True}, "hosts"),
        ({"lang": "wasm", "body": WASM, "hosts": ["a.example"]}, "hosts"),
        ({"lang": "http", "body": "http://x.example/", "hosts": ["x.example"]}, "hosts"),
        ({"options": {"speed": 1}}, "options.speed"),
        ({"options": {"max_batch": 0}}, "options.max_batch"),
        ({"options": {"max_batch": True}}, "options.max_batch"),
        ({"options": 3}, "options"),
        ({"lang": "node", "memory_mb": 32}, "memory_mb"),
        ({"lang": "wasm", "body": "not base64!"}, "body"),
        ({"lang": "wasm", "body": base64.b64encode(b"MZ").decode()}, "body"),
        ({"lang": "wasm", "body": WASM, "before": "x"}, "before"),
        ({"lang": "http", "body": "http://x.example/", "before": "x"}, "before"),
        ({"lang": "http", "body": "http://x.example/", "env": {"A": "1"}}, "env"),
        ({"lang": "http", "body": "http://x.example/", "secrets": [f"A{n}" for n in range(5)]}, "secrets"),
        ({"lang": "worker", "secrets": ["A"]}, "secrets"),
        ({"secrets": "A"}, "secrets"),
        ({"secrets": [1]}, "secrets"),
        ({"secrets": ["A-B"]}, "secrets"),
        ({"secrets": ["FUNCTORY_X"]}, "secrets"),
        ({"secrets": ["A"], "env": {"A": "1"}}, "secrets"),
        ({"secrets": [f"A{n}" for n in range(17)]}, "secrets"),
        ({"lang": "http", "body": "http://x.example/", "eid": "a"}, "eid"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidHandlerError) as caught:
        parse_handler({"lang": "python", "body": "pass", **change})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert len(str(caught.value)) < 300


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5))
def test_whatever_is_sent_is_a_handler_or_an_error(value: object) -> None:
    for sent in (
        value,
        {"lang": value},
        {"lang": "python", "body": value},
        {"lang": "sh", "body": ":", "env": value},
    ):
        try:
            parse_handler(sent)
        except InvalidHandlerError:
            continue


def test_a_type_that_workers_serve_needs_no_text_and_has_no_timeout_of_its_own() -> None:
    handler = parse_handler({"lang": "worker"})
    assert (handler.body, handler.timeout_s, handler.lease_s) == ("", 0.0, None)
    told = parse_handler({"lang": "worker", "body": "JSON", "timeout_s": 86_400, "options": {"lease_s": 90}})
    assert (told.body, told.timeout_s, told.lease_s) == ("JSON", 86_400.0, 90)
    assert decode_handler(encode_handler(told)) == told


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"body": 7}, "body"),
        ({"body": "x" * 65_537}, "body"),
        ({"before": "x"}, "before"),
        ({"env": {"A": "1"}}, "env"),
        ({"eid": "a"}, "eid"),
        ({"timeout_s": 0.01}, "timeout_s"),
        ({"timeout_s": 2_592_001}, "timeout_s"),
        ({"memory_mb": 64}, "memory_mb"),
        ({"network": True}, "network"),
        ({"hosts": ["a.example"]}, "hosts"),
        ({"returns": "status"}, "returns"),
        ({"options": {"keep_processes": 1}}, "options.keep_processes"),
        ({"options": {"printed_jobs": 0}}, "options.printed_jobs"),
        ({"lang": "python", "body": "x", "options": {"printed_jobs": 2}}, "options.printed_jobs"),
        ({"options": {"lease_s": 0}}, "options.lease_s"),
        ({"lang": "python", "body": "x", "options": {"lease_s": 5}}, "options.lease_s"),
    ],
)
def test_what_has_no_meaning_for_workers_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidHandlerError) as caught:
        parse_handler({"lang": "worker", **change})
    assert caught.value.field == field


def test_the_version_depends_on_every_field() -> None:
    base = Handler("python", "pass")
    changed = [
        replace(base, lang="sh"),
        replace(base, body="pass "),
        replace(base, before="x"),
        replace(base, before_each="x"),
        replace(base, after_each="x"),
        replace(base, eid="x"),
        replace(base, env={"A": "1"}),
        replace(base, secrets=("A",)),
        replace(base, timeout_s=1.0),
        replace(base, memory_mb=65),
        replace(base, network=True),
        replace(base, hosts=("a.example",)),
        replace(base, returns="status"),
        replace(base, then="x"),
        replace(base, on_failure="x"),
        replace(base, keep="none"),
        replace(base, domain="x"),
        replace(base, options={"max_batch": 1}),
        replace(base, lock=LOCK),
        replace(base, entry="main.py"),
        replace(base, tree="a" * 64),
    ]
    assert len(changed) == len(JSON_NAMES)
    assert len({handler.version for handler in (base, *changed)}) == len(changed) + 1
    assert base.version == Handler("python", "pass").version


def test_hosts_have_one_spelling_and_belong_to_the_context() -> None:
    handler = parse_handler(
        {"lang": "sh", "body": "true", "hosts": ["API.Example.org.", "api.example.org", "*.b.org:80"]}
    )
    assert handler.hosts == ("api.example.org", "*.b.org:80")
    assert handler.surroundings != replace(handler, hosts=()).surroundings  # or sharers of an eid would share them


def test_a_handler_that_prints_no_jobs_shares_no_context_with_one_that_does() -> None:
    handler = parse_handler({"lang": "sh", "body": "true", "eid": "a", "options": {"printed_jobs": 0}})
    assert handler.surroundings != replace(handler, options={}).surroundings
    assert replace(handler, options={"printed_jobs": 1}).surroundings == replace(handler, options={}).surroundings


@pytest.mark.parametrize("name", ["keep_processes", "printed_jobs"])
def test_an_http_handler_may_have_what_it_was_once_stored_with(name: str) -> None:
    assert parse_handler({"lang": "http", "body": "https://a.example/", "options": {name: 0}}).options == {name: 0}


def test_a_syntax_error_says_where() -> None:
    err = HandlerSyntaxError("body", "unexpected end", line=3, column=7)
    assert str(err) == "body: line 3, column 7: unexpected end"
    assert (err.code, err.field) == ("handler_syntax", "body")
    assert str(HandlerSyntaxError("body", "no idea where")) == "body: no idea where"


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_language_is_a_row_and_a_file(name: str) -> None:
    row = LANGUAGES[name]
    assert row.name == name
    if row.in_context:
        assert (BOOTSTRAPS / row.bootstrap).is_file()
        if row.missing() is None:
            assert row.argv()[-1 - len(row.modules)] == BOOTSTRAPS / row.bootstrap
            assert all(path.exists() for path in row.preload())
    else:
        assert row.missing() is None


def test_a_missing_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert LANGUAGES["node"].missing() == "node"
    assert LANGUAGES["sh"].missing() == "sh"


@pytest.mark.parametrize(
    ("lang", "returns"), [("python", "status"), ("node", "status"), ("php", "status"), ("sh", "value")]
)
def test_a_version_that_was_stored_before_keeps_its_meaning(lang: str, returns: str) -> None:
    """A returned number was a status when it was written; saved anew it is a result."""
    old = {name: value for name, value in Handler(lang, "x").to_json().items() if name != "returns"}
    assert decode_handler(json.dumps(old).encode()).returns == returns
    assert decode_handler(encode_handler(parse_handler(old))).returns == "value"


def test_what_returns_may_be() -> None:
    for lang, value in (("python", "number"), ("sh", "status"), ("python", 1)):
        with pytest.raises(InvalidHandlerError, match="returns"):
            parse_handler({"lang": lang, "body": "x", "returns": value})

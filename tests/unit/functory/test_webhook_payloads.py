"""What a delivery becomes as a payload, and a result as an answer."""

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from functory.webhooks.delivery import Delivery
from functory.webhooks.payloads import challenge_of, payload_of, result_type
from functory.webhooks.terms import Terms

JSON = {"content-type": "application/json; charset=utf-8"}


def request(body: bytes = b"", query: Any = None, headers: Any = None, **changes: Any) -> Any:
    terms = Terms(type="build", verify=changes.pop("verify", "none"), payload="request", **changes)
    return json.loads(payload_of(terms, Delivery("POST", query or {}, headers or {}, body)))


def test_the_body_is_passed_on_as_it_came() -> None:
    body = b"\x00 any \xff\nbytes"
    assert payload_of(Terms(type="build", verify="none"), Delivery("POST", {}, {}, body)) == body


def test_a_request_is_told_as_json() -> None:
    headers = JSON | {"x-github-event": "push"}
    told = request(b'{"ref": "main"}\n', {"a": ["1"], "b": ["2", "3"]}, headers)
    assert told == {
        "method": "POST",
        "query": {"a": "1", "b": ["2", "3"]},
        "headers": headers,
        "json": {"ref": "main"},
    }


def test_a_body_that_is_no_json_is_told_as_it_is() -> None:
    assert request(b"a=1&b=2", headers={"content-type": "application/x-www-form-urlencoded"})["body"] == "a=1&b=2"
    assert request(b"{broken", headers=JSON)["body"] == "{broken"
    assert request(b'{"a": 1}')["body"] == '{"a": 1}', "it does not say that it is JSON"
    assert request(b"\xff\x00", headers=JSON)["body_base64"] == base64.b64encode(b"\xff\x00").decode()
    assert request(b'"\xff"', headers=JSON)["body_base64"] == base64.b64encode(b'"\xff"').decode()
    assert request(b"[" * 100_000, headers=JSON)["body"] == "[" * 100_000


def test_what_proves_the_sender_stays_here() -> None:
    told = request(
        b"", {"token": ["t"], "a": ["1"]}, {"authorization": "Bearer x", "cookie": "c", "x": "1"}, verify="token"
    )
    assert (told["query"], told["headers"]) == ({"a": "1"}, {"x": "1"})
    told = request(b"", {"token": ["1"]}, {"x-key": "t", "x": "1"}, verify="token", header="X-Key")
    assert (told["query"], told["headers"]) == ({"token": "1"}, {"x": "1"})
    assert request(b"", {}, {"x-gitlab-token": "t", "x": "1"}, verify="gitlab")["headers"] == {"x": "1"}


@given(
    query=st.dictionaries(st.text(st.characters()), st.lists(st.text(st.characters()), min_size=1)),
    header=st.text(st.characters()),
    body=st.binary(),
    kind=st.sampled_from(["", "application/json"]),
)
def test_whatever_comes_becomes_json(query: Any, header: str, body: bytes, kind: str) -> None:
    told = request(body, query, {"content-type": kind, "x": header})
    (found,) = told.keys() & {"json", "body", "body_base64"}
    if found == "json":
        assert told["json"] == json.loads(body)
    else:
        assert body == (told[found].encode() if found == "body" else base64.b64decode(told[found]))


def test_slack_reads_its_challenge_back() -> None:
    asked = b'{"token": "x", "challenge": "3eZb", "type": "url_verification"}'
    slack = Terms(type="build", verify="slack")
    assert challenge_of(slack, Delivery("POST", {}, {}, asked)) == "3eZb"
    assert challenge_of(Terms(type="build", verify="github"), Delivery("POST", {}, {}, asked)) is None
    for other in (b'{"type": "event", "challenge": "url_verification"}', b'"url_verification"', b"url_verification{"):
        assert challenge_of(slack, Delivery("POST", {}, {}, other)) is None


def test_a_result_has_the_type_that_it_is_of_or_that_was_asked_for() -> None:
    plain = Terms(type="build", verify="none")
    assert result_type(plain, b'{"a": 1}') == "application/json"
    assert result_type(plain, b"hello") == result_type(plain, b"\xff") == "text/plain; charset=utf-8"
    xml = Terms(type="build", verify="none", result_type="text/xml")
    assert result_type(xml, b"{}") == "text/xml; charset=utf-8"
    as_json = Terms(type="build", verify="none", result_type="application/json")
    assert result_type(as_json, b"hello") == "application/json"

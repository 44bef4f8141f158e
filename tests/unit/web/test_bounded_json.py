"""Of a large JSON text, little reaches the decoder but the text of payloads."""

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from functory.errors import FunctoryError, InvalidInput, RequestTooLarge
from functory.web.api.handler_fields import decode_handler_fields
from functory.web.http.bounded_json import MOST_FIELD_BYTES, SMALL_BYTES
from functory.web.http.endpoint import decode_json
from functory.wire.handlers import InvokeBody
from functory.wire.jobs import CreateBody, NewJob, RetryBody
from functory.wire.untyped_json import decode_untyped, json_decoder
from functory.wire.workers import RenewBody, ReportBody
from handlers.errors import InvalidHandlerError
from journal.errors import LimitExceeded

DEAR = b"2.2250738585072011123456789e-308"
FILL = b"x" * SMALL_BYTES
BLANK = b" " * SMALL_BYTES


class Watched:
    """A decoder that knows what it was given."""

    def __init__(self, kind: Any) -> None:
        self.type = kind
        self.given = b""
        self._decoder = json_decoder(kind)

    def decode(self, text: bytes) -> Any:
        self.given = text
        return self._decoder.decode(text)


def report(fields: bytes = b"") -> bytes:
    return b'{"id":"20270115T080000000Z-a7-ffffff","token":1%b}' % fields


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (NewJob, b'{"payload":0,%b}' % b",".join([b'"delay_s":1e-310'] * 100_000)),
        (NewJob, b'{"payload":0,%b}' % b",".join([b'"d\\u0065lay_s":1e-310'] * 100_000)),
        (NewJob, b'{"payload":0,"delay_s":%b}' % (b"9" * 1_000_000)),
        (NewJob, b'{"payload":0,"options":{"a":[%b]}}' % b",".join([DEAR] * 100_000)),
        (NewJob, b'{"payload":0,"options":{%b}}' % b",".join(b'"%d":0' % n for n in range(100_000))),
        (NewJob, b'{"payload":[%b],"delay_s":1e-310}' % b",".join([DEAR] * 100_000)),
        (NewJob, b'{"payload":0,%b' % b",".join([b'"delay_s":1e-310'] * 100_000)),
        (RetryBody, b"{%b}" % b",".join([b'"next_run":1e300,"delay_s":1e-310'] * 10_000)),
        (ReportBody, b'{"reports":[%b]}' % b",".join([report(b',"delay_s":1e-310')] * 1000)),
        (ReportBody, b'{"reports":[%b]}' % b",".join([report(b',"delay_s":1e-310' * 100)] * 100)),
        (ReportBody, b'{"reports":[],"take":{"types":["x"],%b}}' % b",".join([b'"wait_s":1e-310'] * 10_000)),
        (CreateBody, b'{"jobs":[%b]}' % b",".join([b'{"type":"a","payload":0,"delay_s":1e-310}'] * 100_000)),
        (CreateBody, b'{"jobs":[%b]}' % b",".join([b'{"type":"a","delay_s" :\n 0.%b}' % (b"1" * 2000)] * 900)),
        (RenewBody, b'{"leases":[],%b}' % b",".join([b'"lease_s":%b' % (b"1" * 1000)] * 1000)),
        (RenewBody, b'{"leases":[%b]}' % b",".join([report()] * 5000)),
        (RenewBody, b'{"leases":[],%b}' % b",".join([b'"lease_s":9007199254740993'] * 100_000)),
    ],
)
def test_dear_numbers_do_not_reach_the_decoder(kind: Any, body: bytes) -> None:
    decoder: Any = Watched(kind)
    with suppress(FunctoryError, LimitExceeded):
        decode_json(decoder, body)
    assert len(decoder.given) <= MOST_FIELD_BYTES + SMALL_BYTES


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (ReportBody, b'{"reports":[%b]}' % b",".join([report(b',"result":{"a":0.30000000000000004}')] * 1000)),
        (ReportBody, b'{"reports":[%b]}' % report(b',"result":"%b"' % (FILL * 1000))),
        (ReportBody, b'{"reports":[%b]}' % b",".join([report(b', "delay_s": 1.5, "log": "at 9e300"')] * 1000)),
        (RenewBody, b'{"leases":[%b]}' % b",".join([report()] * 1000)),
        (InvokeBody, b'{"handler":{"lock":[%b]}}' % b",".join([DEAR] * 100_000)),
        (NewJob, b'{"payload":"x","options":{"a":"%b"}}' % FILL),
    ],
)
def test_what_costs_little_is_decoded_as_it_came(kind: Any, body: bytes) -> None:
    decoder: Any = Watched(kind)
    assert decode_json(decoder, body) == json_decoder(kind).decode(body)
    assert decoder.given is body


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (NewJob, {"payload": [1, 2.5, "x" * SMALL_BYTES], "delay_s": 1.5, "options": {"a": [1e300, {}]}}),
        (NewJob, {"payload": "x", "delay_s": 0.5, "repeat": "", "unique": "u", "payload_base64": "A" * 9000}),
        (RetryBody, {"payload": None, "next_run": 1e12, "delay_s": None, "payload_base64": "A" * 9000}),
        (
            ReportBody,
            {
                "reports": [
                    {"id": "20270115T080000000Z-a7-ffffff", "token": n, "result": {"a": [n]}, "delay_s": 2.5}
                    for n in range(1000)
                ],
                "take": {"types": ["x"], "limit": 3, "worker": {"name": "w"}},
            },
        ),
        (CreateBody, {"jobs": [{"type": "a", "payload": "é" * 50, "options": {"a": n}} for n in range(1000)]}),
    ],
)
def test_a_large_text_is_what_it_would_be_in_one_step(kind: Any, fields: dict[str, Any]) -> None:
    decoder = json_decoder(kind)
    text = json.dumps(fields, indent=1).encode()
    assert len(text) > SMALL_BYTES
    assert decode_json(decoder, text) == decoder.decode(text)


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (NewJob, b'{"payload":"%b","colour":1}' % FILL, "colour"),
        (NewJob, b'{"payload":"%b","delay_s":"x"}' % FILL, "delay_s"),
        (NewJob, b'{"payload":"%b","delay_s":1e300}' % FILL, "delay_s"),
        (CreateBody, b'{"jobs":[{"type":"a"},{"type":"a","payload":"%b","colour":1}]}' % FILL, "jobs[1].colour"),
        (CreateBody, b'{"jobs":[{"type":"a"},{"type":"a","payload":"%b","delay_s":1e300}]}' % FILL, "jobs[1].delay_s"),
        (CreateBody, b'{"jobs":[{"type":"a"},{"type":"a","payload":"%b","delay_s":-1}]}' % FILL, "jobs[1].delay_s"),
        (ReportBody, b'{"reports":[%b]}' % b",".join([report()] * 1001), "reports"),
        (ReportBody, b'{"reports":[],%b"take":{"types":["x"],"worker":{"colour":1}}}' % BLANK, "take.worker.colour"),
        (ReportBody, b'{"reports":[],"take":{"types":["x"],"wait_s":6,"colour":"%b"}}' % FILL, "take.colour"),
        (ReportBody, b'{"reports":[],"take":{"types":["x"],"wait_s":1e300,"colour":"%b"}}' % FILL, "take.colour"),
        (ReportBody, b'{"reports":[],"take":{"types":["x"],"wait_s":%b}}' % FILL.replace(b"x", b"1"), "take.wait_s"),
        (RenewBody, b'{"leases":[%b,{"id":1}]}' % b",".join([report()] * 100), "leases[100].id"),
    ],
)
def test_what_is_wrong_in_a_large_text_is_named(kind: Any, body: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode_json(json_decoder(kind), body)
    assert caught.value.detail["field"] == field


@pytest.mark.parametrize(
    ("values", "most", "too_many"),
    [
        ([b"1"] * 4000, 30, 100),
        ([b"{}"] * 4000, 30, 60),
        ([b"7" * 4000], 100, 200),
        ([b"1e-300"] * 2, 1000, None),
        ([b"1e-300"] * 1000, 60, 100),
        ([b" -1.5E+000300"] * 1000, 30, 60),
        ([b"383029582273282798960257e-90"] * 400, 40, 60),
        ([b'{"a":1e-300}'] * 400, 100, 140),
        ([b'""'] * 4000, 30, 60),
        ([b"1" + BLANK * 3], 1000, None),
        ([b'"%b"' % (b"y" * 16_000)], 1000, None),
        ([b'"%b"' % (b"1,[:{.5e9" * 1600)], 100, None),
        ([rb'"%b"' % (rb"\"id\":[1.5],\\" * 1000)], 100, None),
        ([rb'"\\"', rb'"\\\""', b"7" * 4000], 100, 200),
    ],
)
def test_all_options_of_a_list_are_bounded_together(values: list[bytes], most: int, too_many: int | None) -> None:
    """By what may be dear in them."""
    one = b'{"type":"a","options":{"a":[%b]}}' % b",".join(values)
    assert len(decode_json(json_decoder(CreateBody), b'{"jobs":[%b]}' % b",".join([one] * most)).jobs) == most
    if too_many is not None:
        with pytest.raises(RequestTooLarge, match="options"):
            decode_json(json_decoder(CreateBody), b'{"jobs":[%b]}' % b",".join([one] * too_many))


def test_a_large_handler_is_what_it_would_be_in_one_step() -> None:
    fields = {"lang": "python", "body": "[,{" * 100_000, "env": {"A": "b"}, "timeout_s": 2.5, "lock": {"a": [1, "b"]}}
    assert decode_handler_fields(json.dumps(fields).encode()) == fields


@pytest.mark.parametrize(
    "more",
    [
        b'"env":{%b}' % b",".join(b'"a%d":"b"' % n for n in range(100_000)),
        b'"lock":[%b]' % b",".join([DEAR] * 100_000),
        b'"options":{"a":[%b]}' % b",".join([DEAR] * 10_000),
        b'"hosts":[%b]' % b",".join([DEAR] * 10_000),
        b'"before":[%b]' % b",".join([DEAR] * 10_000),
    ],
)
def test_a_handler_of_too_many_values_is_refused_unread(more: bytes) -> None:
    with pytest.raises(RequestTooLarge):
        decode_handler_fields(b'{"lang":"python","body":"x",%b}' % more)


def test_an_unknown_field_of_a_large_handler_is_named() -> None:
    with pytest.raises(InvalidHandlerError, match=r"colour: is not a field of a handler; fields are lang, body"):
        decode_handler_fields(b'{"lang":"python","body":"%b","colour":1}' % FILL)


def test_untyped_numbers_are_finite() -> None:
    assert decode_untyped(b"[1.5, 1e308, 1e-320]") == [1.5, 1e308, 1e-320]
    with pytest.raises(msgspec.ValidationError):
        decode_untyped(b"[1e999]")

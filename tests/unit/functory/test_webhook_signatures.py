"""Signatures of webhooks: the examples that their inventors published, and everything that is a little wrong."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.errors import Unauthorized
from functory.webhooks.delivery import Delivery
from functory.webhooks.schemes import delivery_id
from functory.webhooks.signatures import TOLERANCE_S, check_delivery
from functory.webhooks.terms import Terms

NOW_S = 1_800_000_000
KEY = "the-key-of-both"


def terms(verify: Any, **changes: Any) -> Terms:
    return Terms(type="build", verify=verify, secrets=("HOOK",), **changes)


def delivery(body: bytes = b"", query: Any = None, **headers: str) -> Delivery:
    return Delivery("POST", query or {}, {name.replace("_", "-").lower(): it for name, it in headers.items()}, body)


def mac(message: bytes, key: bytes = KEY.encode(), algorithm: str = "sha256") -> bytes:
    return hmac.new(key, message, algorithm).digest()


def check(how: Terms, what: Delivery, *values: str, now_s: float = NOW_S) -> None:
    check_delivery(how, values or (KEY,), what, round(now_s * 1000))


# What the inventors of the schemes have published


def test_the_example_of_github() -> None:
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    check(
        terms("github"),
        delivery(b"Hello, World!", x_hub_signature_256=signature),
        "It's a Secret to Everybody",
        now_s=0,
    )


def test_the_example_of_slack() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    what = delivery(body, x_slack_signature=signature, x_slack_request_timestamp="1531420618")
    check(terms("slack"), what, "8f742231b10e8888abcd99yyyzzz85a5", now_s=1531420618)


@pytest.mark.parametrize("family", ["webhook", "svix"])
def test_the_example_of_standard_webhooks(family: str) -> None:
    signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    headers = {f"{family}-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", f"{family}-timestamp": "1614265330"}
    what = Delivery("POST", {}, {**headers, f"{family}-signature": signature}, b'{"test": 2432232314}')
    check(terms("standard"), what, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", now_s=1614265330)
    assert delivery_id(terms("standard"), what) == "msg_p5jXN8AQM9LWM0D4loKWxJek"


@pytest.mark.parametrize(("signed", "other"), [("webhook", "svix"), ("svix", "webhook")])
def test_a_delivery_has_the_id_that_was_signed(signed: str, other: str) -> None:
    """Who overhears one could otherwise send it again under any other name."""
    headers = {f"{signed}-id": "signed", f"{signed}-signature": "v1,x", f"{other}-id": "added"}
    assert delivery_id(terms("standard"), Delivery("POST", {}, headers, b"")) == "signed"


# What fits, and what is a little wrong

HMAC = {"header": "X-Sign"}
SIGNED: dict[str, tuple[Terms, Any]] = {
    "github": (terms("github"), lambda m: {"x_hub_signature_256": f"sha256={mac(m).hex()}"}),
    "slack": (
        terms("slack"),
        lambda m: {
            "x_slack_signature": f"v0={mac(b'v0:%d:' % NOW_S + m).hex()}",
            "x_slack_request_timestamp": f"{NOW_S}",
        },
    ),
    "stripe": (terms("stripe"), lambda m: {"stripe_signature": f"t={NOW_S},v1={mac(b'%d.' % NOW_S + m).hex()},v0=x"}),
    "standard": (
        terms("standard"),
        lambda m: {
            "webhook_id": "msg_1",
            "webhook_timestamp": f"{NOW_S}",
            "webhook_signature": f"v1,{base64.b64encode(mac(b'msg_1.%d.' % NOW_S + m)).decode()}",
        },
    ),
    "hmac": (terms("hmac", **HMAC), lambda m: {"x_sign": mac(m).hex()}),
    "hmac of sha512 in base64": (
        terms("hmac", **HMAC, algorithm="sha512", digest="base64"),
        lambda m: {"x_sign": base64.b64encode(mac(m, algorithm="sha512")).decode()},
    ),
    "hmac of sha1 with a prefix": (
        terms("hmac", **HMAC, algorithm="sha1", prefix="sha1="),
        lambda m: {"x_sign": f"sha1={mac(m, algorithm='sha1').hex().upper()}"},
    ),
}
EVERY_SCHEME = pytest.mark.parametrize("name", SIGNED)


@EVERY_SCHEME
def test_who_has_the_key_is_let_in(name: str) -> None:
    how, headers_of = SIGNED[name]
    check(how, delivery(b"body", **headers_of(b"body")))
    check(how, delivery(b"", **headers_of(b"")), "another", KEY)  # while a key is replaced, any of them will do
    check(how, delivery(b"body", **headers_of(b"body")), f" {KEY}\n")  # secrets come from files, with their line ends


@EVERY_SCHEME
@given(change=st.sampled_from(["body", "key", "signature"]), body=st.binary(min_size=1, max_size=40), at=st.integers(0))
def test_whatever_is_changed_is_refused(name: str, change: str, body: bytes, at: int) -> None:
    how, headers_of = SIGNED[name]
    headers, key = headers_of(body), KEY
    if change == "body":
        at %= len(body)
        body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    elif change == "key":
        at %= len(key)
        key = key[:at] + chr(ord(key[at]) ^ 1) + key[at + 1 :]
    else:
        where = next(header for header in headers if "sign" in header)
        signature = headers[where].removesuffix(",v0=x").rstrip("=")
        at = len(signature) - 2 - at % 8  # of the last digits, of which each counts as a whole
        other = "B" if signature[at] in "Aa" else "A"
        headers |= {where: signature[:at] + other + signature[at + 1 :]}
    with pytest.raises(Unauthorized, match="different secrets"):
        check(how, delivery(body, **headers), key)


@EVERY_SCHEME
def test_what_is_not_signed_is_refused(name: str) -> None:
    how, headers_of = SIGNED[name]
    with pytest.raises(Unauthorized, match="has no signature"):
        check(how, delivery(b"body"))
    empty = {header: "" if "sign" in header else it for header, it in headers_of(b"body").items()}
    with pytest.raises(Unauthorized, match="has no signature"):
        check(how, delivery(b"body", **empty))


@pytest.mark.parametrize("empty", ["", " \n", "whsec_"])
@EVERY_SCHEME
def test_an_empty_key_lets_nobody_in(name: str, empty: str) -> None:
    how, _ = SIGNED[name]
    signed = {"webhook-id": "1", "webhook-timestamp": f"{NOW_S}"}
    made = base64.b64encode(mac(b"1.%d." % NOW_S, b"")).decode()
    forged = Delivery("POST", {}, signed | {"webhook-signature": f"v1,{made}"}, b"")
    if how.verify != "standard":
        code = getattr(hashlib, how.algorithm)
        sign = hmac.new(b"", b"", code).digest()
        text = base64.b64encode(sign).decode() if how.digest == "base64" else sign.hex()
        forged = delivery(b"", x_sign=how.prefix + text, x_hub_signature_256=f"sha256={text}")
    with pytest.raises(Unauthorized):
        check(how, forged, empty)


@pytest.mark.parametrize("name", ["slack", "stripe", "standard"])
@pytest.mark.parametrize(
    ("away_s", "is_good"),
    [(TOLERANCE_S, True), (TOLERANCE_S + 1, False), (-TOLERANCE_S, True), (-TOLERANCE_S - 1, False)],
)
def test_a_delivery_that_was_overheard_is_of_no_use_later(name: str, away_s: int, *, is_good: bool) -> None:
    how, headers_of = SIGNED[name]
    what = delivery(b"body", **headers_of(b"body"))
    if is_good:
        check(how, what, now_s=NOW_S + away_s)
    else:
        with pytest.raises(Unauthorized, match="301 s from the time here"):
            check(how, what, now_s=NOW_S + away_s)


@pytest.mark.parametrize("time", ["", "soon", "-1800000000", "1e9", "१८", "9" * 400])
def test_a_time_that_is_none_is_refused(time: str) -> None:
    signature = f"v0={mac(f'v0:{time}:body'.encode()).hex()}"
    with pytest.raises(Unauthorized, match="has no time"):
        check(terms("slack"), delivery(b"body", x_slack_signature=signature, x_slack_request_timestamp=time))


def test_of_several_signatures_one_must_fit() -> None:
    good = mac(b"%d.body" % NOW_S).hex()
    check(terms("stripe"), delivery(b"body", stripe_signature=f"t={NOW_S},v1={'0' * 64},v1={good}"))
    many = "".join(f",v1={'0' * 64}" for _ in range(50))
    with pytest.raises(Unauthorized):
        check(terms("stripe"), delivery(b"body", stripe_signature=f"t={NOW_S}{many},v1={good}"))


# Tokens

TOKENS = [
    (terms("gitlab"), delivery(x_gitlab_token=KEY), delivery(x_gitlab_token=f"{KEY}x")),
    (terms("token"), delivery(query={"token": [KEY]}), delivery(query={"token": ["wrong", KEY]})),
    (terms("token", header="X-Key"), delivery(x_key=KEY), delivery(x_key="", query={"token": [KEY]})),
    (terms("token", header="Authorization"), delivery(authorization=f"Bearer {KEY}"), delivery(authorization="Bearer")),
    (terms("token", header="Authorization"), delivery(authorization=KEY), delivery(authorization="Bearer \udcff")),
]


@pytest.mark.parametrize(("how", "good", "bad"), TOKENS)
def test_a_token_lets_in_who_has_it(how: Terms, good: Delivery, bad: Delivery) -> None:
    check(how, good)
    check(how, good, "another", KEY)
    with pytest.raises(Unauthorized, match="token"):
        check(how, bad)
    with pytest.raises(Unauthorized, match="is missing"):
        check(how, delivery(b"body"))
    with pytest.raises(Unauthorized):
        check(how, good, "another")


def test_with_verify_none_anybody_is_let_in() -> None:
    check_delivery(Terms(type="build", verify="none"), (), delivery(b"body"), 0)


# What names a delivery


@pytest.mark.parametrize(
    ("how", "what", "named"),
    [
        (terms("github"), delivery(x_github_delivery="72d3162e"), "72d3162e"),
        (terms("gitlab"), delivery(idempotency_key="f5e5"), "f5e5"),
        (terms("stripe"), delivery(b'{"id": "evt_1", "object": "event"}'), "evt_1"),
        (terms("slack"), delivery(b'{"event_id": "Ev0", "id": "not-this"}'), "Ev0"),
        (terms("slack"), delivery(b"command=%2Fweather"), ""),
        (terms("stripe"), delivery(b'{"id": 7}'), ""),
        (terms("stripe"), delivery(b"[" * 100_000), ""),
        (terms("hmac"), delivery(x_github_delivery="72d3162e"), ""),
        (terms("hmac", delivery_header="X-Id"), delivery(x_id=" 9 "), "9"),
        (terms("github", delivery_header="X-Id"), delivery(x_github_delivery="72d3162e"), ""),
        (terms("github", delivery_header=""), delivery(x_github_delivery="72d3162e"), ""),
        (terms("stripe", delivery_header=""), delivery(b'{"id": "evt_1"}'), ""),
    ],
)
def test_what_names_a_delivery(how: Terms, what: Delivery, named: str) -> None:
    assert delivery_id(how, what) == named


@given(text=st.text(st.characters()), body=st.binary())
def test_no_header_breaks_anything(text: str, body: bytes) -> None:
    for how, headers_of in SIGNED.values():
        headers = dict.fromkeys(headers_of(b""), text)
        what = delivery(body, **headers)
        with pytest.raises(Unauthorized):
            check(how, what)
        delivery_id(how, what)
    for how, *_ in TOKENS:
        what = delivery(body, {"token": [text]}, x_gitlab_token=text, x_key=text, authorization=text)
        with pytest.raises(Unauthorized):
            check(how, what)

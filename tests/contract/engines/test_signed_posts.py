"""Posts of http handlers that name secrets are signed as Standard Webhooks says, and the secrets stay here."""

import base64
import hashlib
import hmac
import ipaddress
import time
from collections.abc import AsyncIterator

import pytest

from functory.webhooks.delivery import Delivery
from functory.webhooks.signatures import check_delivery
from functory.webhooks.terms import Terms
from handlers.model import Handler
from runner.plain import PlainLauncher
from runner.runner import Runner, RunnerSettings
from tests.support.engines import Run, jobs, run
from tests.support.http_target import Target, open_target
from tests.support.secret_shelf import VALUE, Shelf
from vocabulary.signed_messages import headers_of

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))
STANDARD = Terms(type="t", verify="standard", secrets=("API_KEY",))


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with open_target() as made:
        yield made


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def keeper(shelf: Shelf) -> AsyncIterator[Runner]:
    made = Runner(PlainLauncher(), RunnerSettings(http_allowed=LOOPBACK), secrets=shelf)
    yield made
    await made.close()


async def call(
    keeper: Runner, target: Target, *payloads: bytes, names: tuple[str, ...] = ("API_KEY",), jobtype: str = "acme-test"
) -> Run:
    return await run(keeper, Handler("http", target.url, secrets=names), jobs(*payloads), jobtype)


def check(target: Target, value: str, number: int = -1) -> None:
    """As the receiver does."""
    headers = {name.lower(): text for name, text in target.headers[number].items()}
    check_delivery(STANDARD, (value,), Delivery("POST", {}, headers, target.bodies[number]), round(time.time() * 1000))


def test_the_example_of_the_specification() -> None:
    made = headers_of(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_whoever_has_the_secret_can_tell_that_a_post_is_ours(keeper: Runner, target: Target) -> None:
    target.says("200\n")
    ran = await call(keeper, target, b"one")
    assert ran.exitcodes == [200]
    check(target, VALUE)
    with pytest.raises(Exception, match="different secrets"):
        check(target, "another")
    sent = target.headers[0]
    assert sent["webhook-id"] == ran.stopped[0].id
    assert VALUE not in f"{sent}"
    message = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.".encode() + b"one\n"
    by_hand = base64.b64encode(hmac.new(VALUE.encode(), message, hashlib.sha256).digest()).decode()
    assert sent["webhook-signature"] == f"v1,{by_hand}"


async def test_while_a_secret_is_replaced_both_sign(keeper: Runner, target: Target) -> None:
    target.says("200\n")
    await call(keeper, target, b"one", names=("API_KEY", "OTHER"))
    check(target, VALUE)
    check(target, "not-asked-for")


async def test_a_new_version_signs_the_next_post(keeper: Runner, target: Target, shelf: Shelf) -> None:
    target.says("200\n")
    await call(keeper, target, b"one")
    shelf.values["API_KEY"] = "a-new-value\n"
    await call(keeper, target, b"one")
    check(target, "a-new-value")


async def test_the_same_jobs_are_the_same_message(keeper: Runner, target: Target) -> None:
    target.says("200\n200\n")
    for _ in range(2):
        await call(keeper, target, b"one", b"two")
    first, again = (headers["webhook-id"] for headers in target.headers)
    assert first == again
    assert first.startswith("batch-")
    target.says("200\n200\n200\n")
    await call(keeper, target, b"one", b"two", b"three")
    assert target.headers[-1]["webhook-id"] != first


async def test_without_secrets_nothing_is_signed(keeper: Runner, target: Target) -> None:
    target.says("200\n")
    await call(keeper, target, b"one", names=())
    assert not [name for name in target.headers[0] if name.startswith("webhook")]


async def test_nothing_is_posted_unsigned(keeper: Runner, target: Target) -> None:
    missing = await call(keeper, target, b"one", b"two", names=("GONE",))
    assert (missing.exitcodes, missing.results) == ([500, 500], [b"the secret GONE is not set"] * 2)
    locked = await call(keeper, target, b"one", jobtype="other-test")
    assert (locked.stopped, len(locked.given_back)) == ([], 1)
    assert target.bodies == []

"""A store that neither answers nor says that it is away: who was known a moment ago is served as before."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from functory.loops import one_look
from functory.operations.keyring import KeyRing
from functory.operations.keys import create_key
from functory.operations.verified_keys import LIFE_S
from tests.support.service import until
from tests.support.web import Site
from tests.support.webhooks import deliver, set_webhook


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_look, "PATIENCE_S", 0.02)


@pytest.fixture
async def back() -> AsyncIterator[asyncio.Event]:
    """Set when the store answers again."""
    event = asyncio.Event()
    yield event
    event.set()


@contextmanager
def hung(site: Site, verb: str, back: asyncio.Event) -> Iterator[list[str]]:
    """What it gives are the calls that came."""
    calls: list[str] = []
    real = getattr(site.store, verb)

    async def hang(*args: Any, **kwargs: Any) -> Any:
        calls.append(verb)
        await back.wait()
        return await real(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site.store, verb, hang)
        yield calls


@pytest.mark.parametrize("verb", ["get_key", "get_tenant"])
async def test_jobs_are_taken_for_a_key_that_was_good_a_moment_ago(site: Site, back: asyncio.Event, verb: str) -> None:
    await site.add("before")
    site.clock.advance(LIFE_S)
    with hung(site, verb, back) as calls:
        for _ in range(3):
            assert (await site.post("/acme/job/thumb/add", data=b"meanwhile")).status == 200
        assert calls == [verb], "one question for all of them"


async def test_a_key_that_was_revoked_elsewhere_ends_when_the_store_answers(site: Site, back: asyncio.Event) -> None:
    key, site.keys["second"] = await create_key(site.service, "test", "acme")
    assert (await site.get("/acme/results", key="second")).status == 200
    site.clock.advance(LIFE_S)
    await site.store.delete_key("acme", key.key_id)
    with hung(site, "get_key", back):
        assert (await site.get("/acme/results", key="second")).status == 200
        back.set()

        async def is_refused() -> bool:
            return (await site.get("/acme/results", key="second")).status == 401

        await until(is_refused)


async def test_who_has_waited_is_not_held_up_by_the_question_whether_the_key_is_still_good(
    site: Site, back: asyncio.Event
) -> None:
    keys = KeyRing(site.service)
    who = await keys.admit(site.keys["acme"])
    site.clock.advance(LIFE_S)
    with hung(site, "get_key", back):
        await asyncio.wait_for(keys.confirm(who), 10)


async def test_a_delivery_becomes_a_job_by_a_webhook_that_was_there_a_moment_ago(
    site: Site, back: asyncio.Event
) -> None:
    await set_webhook(site)
    assert (await deliver(site, b"before")).status == 202
    site.clock.advance(LIFE_S)
    with hung(site, "get_webhook", back) as calls:
        assert [(await deliver(site, b"%d" % number)).status for number in range(3)] == [202] * 3
        assert calls == ["get_webhook"]


async def test_a_webhook_that_was_deleted_elsewhere_ends_when_the_store_answers(
    site: Site, back: asyncio.Event
) -> None:
    await set_webhook(site)
    assert (await deliver(site, b"before")).status == 202
    site.clock.advance(LIFE_S)
    await site.store.delete_webhook("acme", "github")
    with hung(site, "get_webhook", back):
        assert (await deliver(site, b"meanwhile")).status == 202
        back.set()

        async def is_gone() -> bool:
            return (await deliver(site, b"after")).status == 404

        await until(is_gone)


async def test_a_quota_is_held_against_what_was_known_last(site: Site, back: asyncio.Event) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"max_jobs": 3}})
    await site.add("1")
    site.clock.advance(1)
    with hung(site, "get_usage", back):
        answers = [await site.post("/acme/job/thumb/add", data=b"x") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]


async def test_a_limit_of_types_is_held_against_what_was_known_last(site: Site, back: asyncio.Event) -> None:
    await site.call("PATCH", "/admin/tenants/acme", key="operator", json={"limits": {"max_types": 1}})
    await site.add("1")
    site.clock.advance(10)
    with hung(site, "get_counters", back):
        assert (await site.post("/acme/job/another/add", data=b"x")).status == 429

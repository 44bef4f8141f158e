"""Who may try keys at the sign-in form, and how often: strangers keep nobody else from signing in."""

from types import SimpleNamespace

import pytest

from functory.web.pages import signin
from functory.web.pages.call import PageCall
from tests.support.pages import visitor
from tests.support.web import Site


async def test_strangers_with_many_addresses_keep_nobody_from_signing_in(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signin, "time", SimpleNamespace(monotonic=lambda: 0.0))
    async with visitor(site) as stranger:

        async def attempt(address: str, key: str = "fk_a_" + "x" * 30) -> int:
            monkeypatch.setattr(PageCall, "client", address)
            answer = await stranger.sign_in(key)
            assert answer.status != 403 or "<p>This key is not known" in answer.text
            return answer.status

        assert [await attempt(f"192.0.2.{n}") for n in range(52)] == [403] * 50 + [429] * 2
        assert await attempt("198.51.100.1", site.keys["acme"]) == 303


async def test_a_network_of_ipv6_is_one_address_that_tries_keys(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signin, "time", SimpleNamespace(monotonic=lambda: 0.0))
    async with visitor(site) as stranger:
        for number in range(11):
            monkeypatch.setattr(PageCall, "client", f"2001:db8::{number}")
            assert (await stranger.sign_in("fk_a_" + "x" * 30)).status == (429 if number == 10 else 403)
        monkeypatch.setattr(PageCall, "client", "2001:db8:0:1::1")
        assert (await stranger.sign_in(site.keys["acme"])).status == 303

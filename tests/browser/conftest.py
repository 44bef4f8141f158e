"""One browser and one daemon for all tests of this folder; each test has tenants and a browser context of its own."""

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from functory.client import Client
from tests.support.chromium import open_browser
from tests.support.daemon_process import DaemonProcess, daemon, make_key

expect.set_options(timeout=30_000)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DaemonProcess]:
    """It believes what a proxy says, so that each reader has an address of its own: from one, few may sign in."""
    async with daemon(tmp_path_factory.mktemp("pages") / "data", trusted_proxies="127.0.0.1") as running:
        yield running


@pytest.fixture(scope="session")
def operator_key(server: DaemonProcess) -> str:
    return server.operator_key


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with open_browser() as opened:
        yield opened


class Tenant:
    """A tenant of one test."""

    def __init__(self, server: DaemonProcess, name: str, key: str) -> None:
        self.name = name
        self.key = key
        self.home = f"/ui/t/{name}"
        self.client = Client(server.url, key, name)


_numbers = itertools.count(1)


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(server: DaemonProcess) -> AsyncIterator[Tenant]:
    name = f"acme{next(_numbers)}"
    made = Tenant(server, name, await make_key(server, name))
    async with made.client:
        yield made

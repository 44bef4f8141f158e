"""Debian's Chromium, driven by playwright; skipped with its reason where it is missing, a failure in CI."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Browser, async_playwright

from tests.support.needs import need_command

COMMAND: Final = "chromium"
_FLAGS: Final = (
    "--no-sandbox",  # the tests run as root in containers, where its own sandbox does not start
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@asynccontextmanager
async def open_browser(path: str | None = None) -> AsyncIterator[Browser]:
    """One browser process; give each reader a context of its own."""
    executable = path or shutil.which(COMMAND) or need_command(COMMAND, "chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()

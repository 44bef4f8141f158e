"""Somebody who looks at the pages: a browser context of their own, signed in, and everything that went wrong in it."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, Page

_ADDRESSES = itertools.cycle(range(1, 255))


async def sign_in(page: Page, url: str, key: str) -> None:
    await page.goto(f"{url}/ui/signin")
    await page.get_by_label("Your key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(lambda address: "/signin" not in address)


async def write_code(page: Page, text: str) -> None:
    """Over what is there, as a person would."""
    await page.locator("#code").press("Control+a")
    await page.keyboard.insert_text(text)


@asynccontextmanager
async def reader(browser: Browser, url: str, key: str = "", **context: Any) -> AsyncIterator[Page]:
    """A page at `url`. Fails at the end if a script raised, or the browser refused something by policy."""
    address = {"X-Forwarded-For": f"198.51.100.{next(_ADDRESSES)}"}
    opened = await browser.new_context(
        base_url=url, timezone_id="Asia/Kolkata", locale="en-GB", extra_http_headers=address, **context
    )
    page = await opened.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(f"script: {error}"))
    page.on("console", lambda said: troubles.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
    try:
        if key:
            await sign_in(page, url, key)
        yield page
        assert troubles == [], troubles
    finally:
        await opened.close()

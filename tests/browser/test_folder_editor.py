"""A handler that is a folder, in the editor of a browser: two tabs, and the line of an error."""

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import Tenant
from tests.browser.reader import reader, write_code
from tests.support.archives import tar_of
from tests.support.daemon_process import DaemonProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]  # the browser lives in one event loop

FILES = {"main.py": b"import a, b\nreturn [a.X, b.X]\n", "a.py": b"X = 1\n", "b.py": b"X = 1\n"}


async def test_two_tabs_and_one_folder(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    await tenant.client.put_folder("two", tar_of(FILES))
    edit = f"{tenant.home}/type/two/edit"
    async with reader(browser, server.url, tenant.key) as first:
        second, third = await first.context.new_page(), await first.context.new_page()
        for page, name in ((first, "a.py"), (second, "b.py"), (third, "a.py")):
            await page.goto(f"{edit}?file={name}")
        await save(first, "X = 2")
        await save(second, "X = 3")
        await write_code(third, "X = 4")
        await third.get_by_role("button", name="Save and activate").click()
        await expect(third.get_by_role("alert")).to_contain_text("was saved since you opened it")
        await expect(third.locator("#body")).to_have_value("X = 4")
        await third.get_by_role("button", name="Save and activate").click()
        await expect(third.get_by_role("status")).to_contain_text("Saved and activated")
        for name, text in (("a.py", "X = 4"), ("b.py", "X = 3")):
            await first.goto(f"{edit}?file={name}")
            await expect(first.locator("#body")).to_have_value(text)


async def test_the_line_of_an_error_is_marked_in_its_file(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_folder("one", tar_of({**FILES, "b.py": b"X = 1\nY = 1 / 0\n"}))
    async with reader(browser, server.url, tenant.key) as page:
        for name, line in (("b.py", "Y = 1 / 0"), ("main.py", "import a, b")):
            await page.goto(f"{tenant.home}/type/one/edit?file={name}")
            await page.get_by_role("button", name="Try it").click()
            await expect(page.get_by_label("Result of the try")).to_contain_text("ZeroDivisionError")
            await expect(page.locator(".cm-error-line")).to_have_text(line)


async def test_a_payload_stays_when_another_file_is_opened(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_folder("three", tar_of(FILES))
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/three/edit")
        await expect(page.locator("#code")).to_be_visible()
        await page.get_by_label("Payload").fill("typed by hand")
        await page.get_by_role("link", name="a.py").click()
        await expect(page.locator("#body")).to_have_value("X = 1\n")
        await expect(page.get_by_label("Payload")).to_have_value("typed by hand")
        await page.reload()
        await expect(page.locator("#code")).to_be_visible()


async def save(page: Page, code: str) -> None:
    await write_code(page, code)
    await page.get_by_role("button", name="Save and activate").click()
    await expect(page.get_by_role("status")).to_contain_text("Saved and activated")

"""Small things that only a browser shows: copying without a clipboard, long names, the year of a time."""

import re
import time

import pytest
from msgspec import UnsetType
from playwright.async_api import Browser, expect

from tests.browser.conftest import Tenant
from tests.browser.reader import reader
from tests.support.daemon_process import DaemonProcess, make_key

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]  # the browser lives in one event loop

NO_CLIPBOARD = "Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })"
HEAR = "addEventListener('copy', () => { window.heard = getSelection().toString(); })"


async def test_a_command_is_copied_where_browsers_give_no_clipboard(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    async with reader(browser, server.url, tenant.key) as page:
        await page.add_init_script(NO_CLIPBOARD)
        await page.goto(tenant.home)
        await page.evaluate(HEAR)
        command = page.locator("pre.cmd").last
        await command.get_by_role("button").click()
        await expect(command.get_by_role("button")).to_have_text("Copied")
        assert await page.evaluate("window.heard") == await command.locator("code").inner_text()


@pytest.mark.parametrize("width_px", [1280, 390])
async def test_a_long_name_leaves_the_columns_in_sight(
    browser: Browser, server: DaemonProcess, tenant: Tenant, width_px: int
) -> None:
    name = "x" * 127
    await tenant.client.put_handler(name, "python", "raise ValueError(payload)", options={"max_attempts": 1})
    added = await tenant.client.add_jobs(name, ["x"])
    assert not isinstance(added.ids, UnsetType)
    await tenant.client.get_job(added.ids[0], wait_s=30)
    await tenant.client.set_secret(name, "value")
    async with reader(browser, server.url, tenant.key, viewport={"width": width_px, "height": 800}) as page:
        for path in ("", "/jobs", "/failures", "/secrets"):
            await page.goto(tenant.home + path)
            table = page.locator("table", has_text=name).last
            await expect(table.locator("tbody tr")).to_have_count(1)
            hidden_px = "it => it.parentElement.scrollWidth - it.parentElement.clientWidth"
            assert await table.evaluate(hidden_px) <= 0, path
            assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


async def test_a_long_name_of_a_tenant_breaks_no_word(
    browser: Browser, server: DaemonProcess, operator_key: str
) -> None:
    name = "a" + "m" * 31
    await make_key(server, name)
    lines = """it => [...it.querySelectorAll("a, b")].map((part) => {
        const range = document.createRange();
        range.selectNodeContents(part);
        return range.getClientRects().length;
    })"""
    async with reader(browser, server.url, operator_key, viewport={"width": 360, "height": 800}) as page:
        await page.goto(f"/ui/t/{name}")
        await expect(page.locator("#zone")).to_contain_text("your zone")
        assert (await page.locator(".whose").evaluate(lines))[0] == 1
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


async def test_a_time_of_another_year_has_its_year(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    day_ms = 86_400_000
    far_ms = (int(time.time() * 1000) // day_ms + 800) * day_ms
    added = await tenant.client.add_jobs("far", ["x"], dt=str(far_ms))
    assert not isinstance(added.ids, UnsetType)
    (job_id,) = added.ids
    year = time.gmtime(far_ms / 1000).tm_year
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/job/{job_id}")
        await expect(page.locator(".banner time")).to_have_text(re.compile(rf"^\d\d \w+ {year},? \d\d:\d\d:\d\d$"))
        accepted = page.locator(".life li").first.locator("time")
        await expect(accepted).not_to_have_text(re.compile(str(time.gmtime().tm_year)))


async def test_a_schedule_is_tried_before_it_is_saved(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    """The times are shown in the reader's zone, what was typed stays, and nothing is changed before Save."""
    repeat = "0 9 * * * Asia/Kolkata"
    added = await tenant.client.add_jobs("report", ["sales"], unique="nightly", repeat=repeat)
    assert not isinstance(added.ids, UnsetType)
    (job_id,) = added.ids
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/job/{job_id}")
        await page.get_by_role("link", name="Change schedule").click()
        times = page.locator("#times time")
        await expect(page.get_by_role("heading", name="It runs")).to_be_visible()
        await expect(times).to_have_text([re.compile(r"09:00:00$")] * 5)
        await page.get_by_label("Repeats").fill("30 17 * * * Asia/Kolkata")
        await page.get_by_label("Payload").fill("two\nlines")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("heading", name="It would run")).to_be_visible()
        await expect(times).to_have_text([re.compile(r"17:30:00$")] * 5)
        await expect(page.get_by_label("Payload")).to_have_value("two\nlines")
        assert (await tenant.client.get_job(job_id)).repeat == repeat
        await page.get_by_label("Repeats").fill("61 17 * * *")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("alert")).to_contain_text("minute")
        await expect(page.get_by_label("Repeats")).to_have_value("61 17 * * *")
        await page.get_by_label("Repeats").fill("30 17 * * * Asia/Kolkata")
        await page.get_by_role("button", name="Save").click()
        await expect(page).to_have_url(re.compile(rf"/job/{job_id}$"))
    job = await tenant.client.get_job(job_id)
    assert (job.repeat, job.payload) == ("30 17 * * * Asia/Kolkata", "two\nlines")

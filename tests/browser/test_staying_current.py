"""A page that stays open: its live part and all around it tell the same, and the reader's place in it is kept."""

import re
from functools import partial

import pytest
from msgspec import UnsetType
from playwright.async_api import Browser, Page, expect

from functory.client import Client
from tests.browser.conftest import Tenant
from tests.browser.reader import reader
from tests.support.daemon_process import DaemonProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]  # the browser lives in one event loop


async def is_live(page: Page) -> None:
    await expect(page.locator("#pulse")).to_have_text("live")


async def add(client: Client, type_name: str, **options: object) -> str:
    added = await client.add_jobs(type_name, ["x"], **options)
    assert not isinstance(added.ids, UnsetType)
    return added.ids[0]


async def test_the_head_of_a_page_tells_the_same_as_its_live_part(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    client = tenant.client
    await client.put_consumer("follow", "source")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/fresh")
        await is_live(page)
        await client.put_handler("fresh", "python", "return 1")
        await expect(page.locator(".head")).to_contain_text("version 1")
        await expect(page.get_by_role("link", name="Changes of version 1")).to_be_visible()
        await client.pause_type("fresh")
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()
        await page.goto(f"{tenant.home}/consumers/follow")
        await is_live(page)
        await client.stop_consumer("follow")
        await expect(page.get_by_role("button", name="Start")).to_be_visible()


async def test_a_job_that_is_deferred_again_has_another_head(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    later = {"retry_base_ms": 3_600_000, "retry_max_ms": 3_600_000}
    await tenant.client.put_handler("feed", "python", "raise ValueError(payload)", options=later)
    await tenant.client.pause_type("feed")
    job_id = await add(tenant.client, "feed", delay_s=3600)
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/job/{job_id}")
        await is_live(page)
        await expect(page.locator(".head .st-deferred")).to_be_visible()
        await tenant.client.retry_job(job_id)
        await tenant.client.resume_type("feed")
        await expect(page.get_by_role("link", name="Fix the handler with this payload")).to_be_visible()
        await expect(page.locator(".head .st-deferred")).to_be_visible()


async def test_a_log_that_grows_is_followed_and_keeps_what_is_selected(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    body = "import time\nfor number in range(600):\n    print('line', number, flush=True)\n    time.sleep(0.05)"
    await tenant.client.put_handler("talk", "python", body)
    job_id = await add(tenant.client, "talk")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/job/{job_id}")
        log = page.get_by_label("Log", exact=True)
        await expect(log).to_contain_text("line 40")
        await log.evaluate("it => { it.scrollTop = it.scrollHeight; }")
        await log.evaluate("({ firstChild: it }) => getSelection().setBaseAndExtent(it, 0, it, 6)")
        await expect(log).to_contain_text("line 100")
        assert await page.evaluate("getSelection().toString()") == "line 0"
        assert await log.evaluate("it => it.scrollHeight - it.scrollTop - it.clientHeight") < 4
        await log.evaluate("it => { it.scrollTop = 0; }")
        await expect(log).to_contain_text("line 200")
        assert await log.evaluate("it => it.scrollTop") == 0
        await tenant.client.cancel_job(job_id)


async def test_no_page_is_loaded_again_while_somebody_types(
    browser: Browser, server: DaemonProcess, tenant: Tenant, operator_key: str
) -> None:
    await tenant.client.put_handler("a", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as page, Client(server.url, operator_key) as operator:
        await page.goto(tenant.home)
        await is_live(page)
        await page.get_by_label("Filter by name").press_sequentially("some")
        await page.evaluate("document.getElementById('live').dataset.reloadOn = 'another'")  # as if it had changed
        await page.evaluate("window.isTheSamePage = true")
        await tenant.client.put_handler("second", "python", "return 1")
        await expect(page.locator("#board")).to_contain_text("second")
        await expect(page.get_by_label("Filter by name")).to_have_value("some")
        assert await page.evaluate("window.isTheSamePage") is True
        await page.get_by_label("Filter by name").fill("")
        async with page.expect_event("load"):
            await page.get_by_label("Filter by name").blur()
        await operator.pause_tenant(tenant.name)
        await expect(page.get_by_text("This tenant is suspended")).to_be_visible()
        await expect(page.get_by_role("link", name="New handler")).to_have_count(0)


async def test_the_focus_stays_with_its_row(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    client = tenant.client
    await client.put_handler("mid", "python", "return 1")
    first = await add(client, "mid")
    await client.get_job(first, wait_s=30)
    async with reader(browser, server.url, tenant.key) as page:
        for path, name in (("", "mid"), ("/jobs", first)):
            await page.goto(tenant.home + path)
            await is_live(page)
            link = page.locator("tbody").last.get_by_role("link", name=name)
            await link.focus()
            rows = await page.locator("tbody").last.locator("tr").count()
            await client.put_handler("before", "python", "return 1")
            await add(client, "mid")
            await expect(page.locator("tbody").last.locator("tr")).to_have_count(rows + 1)
            await expect(link).to_be_focused()


async def test_rows_in_another_order_are_moved(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    client = tenant.client
    for name, count in (("a", 3), ("b", 2), ("c", 1)):
        await client.add_jobs(name, ["x"] * count)
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}?sort=waiting")
        await is_live(page)
        rows = page.locator("#board tbody tr")
        await expect(rows).to_have_text([re.compile(f"^{name}") for name in "abc"])
        await rows.last.get_by_role("link").focus()
        await page.evaluate("for (const row of document.querySelectorAll('#board tbody tr')) row.isOld = true")
        await client.add_jobs("c", ["x"] * 5)
        await expect(rows).to_have_text([re.compile(f"^{name}") for name in "cab"])
        await expect(rows.first.get_by_role("link")).to_be_focused()
        assert await rows.evaluate_all("rows => rows.every((row) => row.isOld)")


async def test_a_choice_that_came_with_a_live_part_works(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(tenant.home)
        await is_live(page)
        await tenant.client.put_handler("first", "python", "return 1")
        await page.locator("#show").select_option("failing")
        await expect(page).to_have_url(re.compile("show=failing"))


async def test_who_is_signed_out_is_led_to_the_door(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    async with reader(browser, server.url, tenant.key) as page:
        await page.route(re.compile(r"/~live(\?.*)?$"), lambda route: route.fulfill(status=401, body="no"))
        await page.clock.install()
        await page.goto(f"{tenant.home}/jobs")
        await expect(page.locator("#pulse")).to_have_text("refreshed every 10 s")
        await page.context.clear_cookies()
        await page.clock.run_for(10_500)
        await expect(page).to_have_title(re.compile("Sign in"))
        assert "next=" in page.url


async def test_a_page_of_what_was_deleted_says_so(
    browser: Browser, server: DaemonProcess, tenant: Tenant, operator_key: str
) -> None:
    await tenant.client.put_consumer("follow", "source")
    async with reader(browser, server.url, operator_key) as page, Client(server.url, operator_key) as operator:
        for path, delete in (
            (f"{tenant.home}/consumers/follow", partial(tenant.client.delete_consumer, "follow")),
            (f"{tenant.home}/jobs", partial(operator.delete_tenant, tenant.name)),
        ):
            await page.goto(path)
            await is_live(page)
            await delete()
            await expect(page.locator("#pulse")).to_have_text("no longer there")


HIDE = """(isHidden) => {
    Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_a_tab_that_nobody_sees_holds_no_connection(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    """A browser has six connections to a service: with as many live pages in other tabs, no page would load."""
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(tenant.home)
        await is_live(page)
        async with page.expect_event("requestfailed", lambda it: it.url.endswith("/~live")):
            await page.evaluate(HIDE, True)
        await tenant.client.put_handler("meanwhile", "python", "return 1")
        async with page.expect_request(re.compile("/~live$")):
            await page.evaluate(HIDE, False)
        await expect(page.locator("#board")).to_contain_text("meanwhile")


async def test_a_result_is_of_the_secrets_that_it_had(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    await tenant.client.put_handler("upper", "python", "return payload.upper()")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/upper/edit")
        await page.get_by_role("button", name="Try it").click()
        await expect(page.locator("#tried")).to_have_count(1)
        await page.locator("#secrets").fill("API_KEY")
        await expect(page.locator("#tried")).to_have_count(0)

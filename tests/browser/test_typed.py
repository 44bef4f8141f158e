"""What somebody has typed: it is not lost without a word, whatever happens to page and session, and is sent once."""

import asyncio
import re

import pytest
from playwright.async_api import Browser, Dialog, Page, Route, expect

from tests.browser.conftest import Tenant
from tests.browser.reader import reader, sign_in, write_code
from tests.support.daemon_process import DaemonProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]  # the browser lives in one event loop


async def test_who_leaves_the_editor_is_asked_and_may_come_back(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("up", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as first:
        page = await first.context.new_page()  # one that may ask
        asked: list[str] = []
        is_sure = False

        async def decide(dialog: Dialog) -> None:
            asked.append(dialog.type)
            await (dialog.accept() if is_sure else dialog.dismiss())

        page.on("dialog", decide)
        await page.goto(f"{tenant.home}/type/up/edit")
        await write_code(page, "return 2")
        await page.get_by_role("button", name="colours").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await expect(page.get_by_role("button", name="press for light")).to_be_visible()
        await expect(page.locator("#body")).to_have_value("return 2")
        assert asked == []
        async with page.expect_event("dialog"):
            await page.get_by_role("link", name="Jobs", exact=True).click(no_wait_after=True)
        await expect(page.locator("#body")).to_have_value("return 2")
        is_sure = True
        await page.get_by_role("link", name="Jobs", exact=True).click()
        await expect(page).to_have_title(re.compile("Jobs"))
        await page.go_back()
        await expect(page.locator(".cm-content")).to_have_text("return 2")
        assert asked == ["beforeunload", "beforeunload"]
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("status")).to_contain_text("Saved and activated")
        assert len(asked) == 2, "what is saved is not lost"


async def test_the_editor_shows_what_the_browser_brings_back_after_the_page_has_loaded(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("up", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as page:
        may_load = asyncio.Event()

        async def last(route: Route) -> None:
            await may_load.wait()
            await route.fulfill(status=204)

        await page.route("**/last.png", last)
        await page.add_init_script(  # as the browser does it, when it is slow
            """new Image().src = "/last.png";
            addEventListener("load", () => { document.getElementById("body").value = "return 2"; });"""
        )
        async with page.expect_response(re.compile("/codemirror")) as editor:
            await page.goto(f"{tenant.home}/type/up/edit", wait_until="commit")
        await page.evaluate("async (url) => { await import(url); }", (await editor.value).url)
        may_load.set()
        await expect(page.locator(".cm-content")).to_have_text("return 2")


async def test_an_open_editor_saves_after_signing_in_again(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("up", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/up/edit")
        await write_code(page, "return 2")
        await sign_in(await page.context.new_page(), server.url, tenant.key)
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("status")).to_contain_text("Saved and activated")
    assert (await tenant.client.get_handler("up")).version == 2


@pytest.mark.parametrize(
    ("place", "button", "done"),
    [
        ("type/waits/post", "Post job", "Job posted"),  # one without a handler: its page is not loaded again
        ("secrets", "Set secret", "Secret set"),
        ("type/up/edit", "Save and activate", "Saved and activated"),
    ],
)
async def test_who_was_signed_out_loses_nothing_and_signs_in_in_another_tab(
    browser: Browser, server: DaemonProcess, tenant: Tenant, place: str, button: str, done: str
) -> None:
    await tenant.client.put_handler("up", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/{place}")
        if place == "secrets":
            await page.get_by_label("Name").fill("API_KEY")
            await page.get_by_label("Value").fill("sesame")
        elif place.endswith("post"):
            await page.get_by_label("Payload").fill("sesame")
        else:
            await write_code(page, "return 'sesame'")
        await page.context.clear_cookies()
        await page.get_by_role("button", name=button).click()
        await expect(page.get_by_role("alert")).to_contain_text("You were signed out.")
        async with page.expect_popup() as opened:
            await page.get_by_role("link", name="Sign in in another tab").click()
        other = await opened.value
        await other.get_by_label("Your key").fill(tenant.key)
        await other.get_by_role("button", name="Sign in").click()
        await expect(other).to_have_title(re.compile("Scoreboard"))
        await page.get_by_role("button", name=button).click()
        await expect(page.get_by_role("status")).to_contain_text(done)


async def test_the_keys_of_the_editor_work_in_every_field(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("up", "python", "return payload.upper()")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/up/edit")
        await expect(page.locator("#code")).to_be_visible()
        await page.get_by_label("Payload").fill("ada")
        await page.get_by_label("Payload").press("Control+Enter")
        await expect(page.get_by_label("Result of the try")).to_contain_text("ADA")


async def test_a_second_click_does_not_act_twice(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    async with reader(browser, server.url, tenant.key) as page:
        begun, may_end, posts = asyncio.Event(), asyncio.Event(), 0

        async def slowly(route: Route) -> None:
            nonlocal posts
            if route.request.method == "POST":
                posts += 1
                begun.set()
                await may_end.wait()
            await route.continue_()

        await page.goto(f"{tenant.home}/type/once/post")
        await page.route(re.compile("/post$"), slowly)
        await page.get_by_role("button", name="Post job").focus()
        await page.keyboard.press("Enter")
        await begun.wait()
        await page.keyboard.press("Enter")
        may_end.set()
        await expect(page.get_by_role("status")).to_contain_text("Job posted")
        assert posts == 1
        await told_once(page)


async def test_who_stays_may_send_the_form_again(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    await tenant.client.put_handler("up", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as first:
        page = await first.context.new_page()  # one that may ask
        answers = iter([False, False, True])

        async def decide(dialog: Dialog) -> None:
            await (dialog.accept() if next(answers) else dialog.dismiss())

        page.on("dialog", decide)
        await page.goto(f"{tenant.home}/type/up/edit")
        await write_code(page, "return 2")
        for _ in range(3):
            async with page.expect_event("dialog"):
                await page.get_by_role("button", name="Sign out").click(no_wait_after=True)
        await expect(page).to_have_title(re.compile("Sign in"))


async def test_who_saves_before_the_editor_has_come_is_not_asked_whether_to_leave(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("up", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as first:
        page = await first.context.new_page()  # one in which a script may fail
        asked: list[str] = []

        async def stay(dialog: Dialog) -> None:
            asked.append(dialog.type)
            await dialog.dismiss()

        page.on("dialog", stay)
        await page.route(re.compile("codemirror"), lambda route: route.abort())
        await page.goto(f"{tenant.home}/type/up/edit")
        await page.locator("#body").fill("return 2")
        async with page.expect_event("dialog"):
            await page.get_by_role("link", name="Jobs", exact=True).click(no_wait_after=True)
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("status")).to_contain_text("Saved and activated")
        assert asked == ["beforeunload"], "only by the link"


async def test_what_was_typed_while_a_new_handler_was_saved_is_saved_by_the_next_click(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    async with reader(browser, server.url, tenant.key) as page:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def slowly(route: Route) -> None:
            if route.request.method == "POST":
                begun.set()
                await may_end.wait()
            await route.continue_()

        await page.route(re.compile("/new$"), slowly)
        await page.goto(f"{tenant.home}/new")
        await page.get_by_label("Type: the name").fill("up")
        await write_code(page, "return 1")
        await page.get_by_role("button", name="Save and activate").click()
        await begun.wait()
        await write_code(page, "return 2")
        may_end.set()
        await expect(page.get_by_role("alert")).to_contain_text("Saved without what you changed meanwhile")
        await expect(page.locator('input[name="version"]')).to_have_value("1")
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("status")).to_contain_text("Saved and activated")
    assert (await tenant.client.get_handler("up")).version == 2


async def test_who_saves_again_after_an_answer_was_lost_does_not_save_twice(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("up", "python", "return 1")
    async with reader(browser, server.url, tenant.key) as page:

        async def lose_the_answer(route: Route) -> None:
            if route.request.method == "POST":
                await route.fetch(max_redirects=0)
                await route.abort()
            else:
                await route.continue_()

        await page.route(re.compile("/edit$"), lose_the_answer)
        await page.goto(f"{tenant.home}/type/up/edit")
        await write_code(page, "return 2")
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("alert")).to_contain_text("Save again when it is back: nothing is saved twice.")
        await page.unroute_all()
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("status")).to_contain_text("this version is already active")
    assert (await tenant.client.get_handler("up")).version == 2


async def told_once(page: Page) -> None:
    """What the action did: the address that stays has nothing of it."""
    await expect(page).not_to_have_url(re.compile("note"))
    await page.reload()
    await expect(page.get_by_role("status")).to_have_count(0)

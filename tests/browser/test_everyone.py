"""For everyone: by keyboard alone, on a narrow screen, without scripts, where events do not come through, with a screen
reader, in light and dark."""

import re
import time
from importlib.resources import files

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, ViewportSize, expect

from functory.client import Client
from tests.browser.conftest import Tenant
from tests.browser.places import PLACES, deliver, make_alerts, make_schedules, make_webhooks, retrying_job
from tests.browser.reader import reader
from tests.support.daemon_process import DaemonProcess, make_key

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]  # the browser lives in one event loop

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
_FIND = """async (rules) => (await axe.run(document, { resultTypes: ["violations"], runOnly: rules })).violations
  .filter((it) => ["serious", "critical"].includes(it.impact))
  .map((it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" ")}`)"""
WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 360, "height": 740}
THUMB = 'import json\nreturn json.loads(payload)["size"]["width"]\n'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def keys(server: DaemonProcess, operator_key: str) -> dict[str, str]:
    """The tenants of `PLACES`, with something to see on each page; `failed` is a job."""
    made = {name: await make_key(server, name) for name in ("acme", "globex", "hooli")}
    async with Client(server.url, made["acme"], "acme") as acme:
        await acme.put_handler("thumbnail", "python", THUMB, options={"max_attempts": 1})
        await acme.put_handler("thumbnail", "python", THUMB + "# two", options={"max_attempts": 1})
        added = await acme.add_jobs("thumbnail", ['{"size": {"width": 3}}', '{"size": [3, 4]}'])
        await acme.add_jobs("nobody", ["waits"])
        await acme.put_handler("resting", "python", "return 1")
        await acme.pause_type("resting")
        await acme.take_jobs("resize*", "crop", worker={"name": "gpu-1", "host": "box", "version": "7", "capacity": 8})
        await make_schedules(acme)
        await make_alerts(acme)
        await make_webhooks(acme)
        await deliver(server.url)
        retrying = await retrying_job(acme)
        ended = [await acme.get_job(job_id, wait_s=30) for job_id in added.ids or ()]
    return {**made, "operator": operator_key, "failed": ended[1].id, "retrying": retrying}


async def test_every_page_is_for_everyone(browser: Browser, server: DaemonProcess, keys: dict[str, str]) -> None:
    """axe finds nothing serious in light nor dark, and nothing is wider than a narrow screen."""
    found: list[str] = []
    for who in ("", "acme", "hooli", "operator"):
        async with reader(browser, server.url, keys.get(who, "")) as page:
            await page.context.add_init_script(AXE)
            for place in PLACES:
                if place.who == who:
                    await page.emulate_media(color_scheme="light")
                    await page.set_viewport_size(WIDE)
                    await page.goto(place.path.format(**keys))
                    found += [f"{place.name}, light: {it}" for it in await _violations(page)]
                    await page.emulate_media(color_scheme="dark")
                    found += [f"{place.name}, dark: {it}" for it in await _violations(page, "color-contrast")]
                    await page.set_viewport_size(NARROW)
                    if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                        found.append(f"{place.name}, narrow: wider than the screen")
    assert found == []


async def test_on_no_screen_something_is_out_of_sight(
    browser: Browser, server: DaemonProcess, keys: dict[str, str]
) -> None:
    """The board shows fewer columns where there is no room; the menu begins where the reader is."""
    async with reader(browser, server.url, keys["acme"]) as page:
        for width in (720, 960, 1130):
            await page.set_viewport_size({"width": width, "height": 800})
            await page.goto("/ui/t/acme")
            assert await page.locator(".scroll:has(#board)").evaluate("it => it.scrollWidth <= it.clientWidth"), width
            await expect(page.locator("#board th.narrow")).to_be_visible()
        await page.set_viewport_size({"width": 390, "height": 844})
        for place, name in (("replay", "Replay"), ("secrets", "Secrets")):
            await page.goto(f"/ui/t/acme/{place}")
            await expect(page.get_by_role("link", name=name, exact=True)).to_be_in_viewport(ratio=1)
        await page.clock.install(time=time.time() + 1000)
        await page.goto("/ui/t/acme/workers")
        await expect(page.locator("#workers time")).to_have_text(re.compile(r"\d+ m( \d+ s)? ago"))  # the widest
        await expect(page.get_by_role("button", name="Drain gpu-1")).to_be_in_viewport(ratio=1)


async def test_by_keyboard_alone(browser: Browser, server: DaemonProcess, keys: dict[str, str]) -> None:
    async with reader(browser, server.url) as page:
        await page.goto("/ui/signin")
        await page.keyboard.type(keys["acme"])  # the field has the focus from the start
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("/ui/t/acme$"))
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        await _tab_to(page, "thumbnail", "a[href='/ui/t/acme/type/thumbnail']")
        await expect(page.locator("#pulse")).to_have_text("live")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("/type/thumbnail$"))
        await _tab_to(page, "Pause", "button")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_contain_text("Paused")
        await _tab_to(page, "Resume", "button")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_contain_text("Resumed")
        await _tab_to(page, "Edit handler", "a")
        await page.keyboard.press("Enter")
        await _tab_to(page, "", "#code")
        await page.keyboard.press("Control+End")
        await page.keyboard.type("\nif 1:\n# indented by itself")
        await expect(page.locator("#body")).to_have_value(re.compile(r"if 1:\n    # indented"))
        await page.keyboard.press("Tab")
        await expect(page.locator("#body")).to_have_value(re.compile(r"\n {8}# indented"))
        await page.keyboard.press("Escape")  # and now Tab leaves the editor, as it leaves any field
        await page.keyboard.press("Tab")
        await expect(page.locator("#code")).not_to_be_focused()
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator("#tried, #problem")).to_be_visible()


async def test_without_scripts_everything_essential_works(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("plain", "python", "return payload")
    added = await tenant.client.add_jobs("plain", ["hello"])
    job_id = next(iter(added.ids or ()))
    await tenant.client.get_job(job_id, wait_s=30)
    async with reader(browser, server.url, tenant.key, java_script_enabled=False) as page:
        await expect(page.locator("#board")).to_contain_text("plain")
        await expect(page.get_by_role("link", name="Refresh")).to_be_visible()
        await page.get_by_placeholder("Filter types").fill("nothing like it")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.get_by_text("No type matches")).to_be_visible()
        await page.goto(f"{tenant.home}/job/{job_id}")
        await expect(page.locator("#result")).to_have_text('"hello"')
        await page.get_by_role("button", name="Run again").click()
        await expect(page.get_by_role("status")).to_contain_text("Job queued")
        await tenant.client.get_job(job_id, wait_s=30)  # whose payload the editor offers
        await page.goto(f"{tenant.home}/type/plain/edit")
        await page.get_by_label("Code", exact=True).fill("return payload * 2")
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_label("Result of the try")).to_have_text('"hellohello"')
        await page.get_by_role("button", name="Save and activate").click()
        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator(".head .tag.warn")).to_have_text("type is paused")
        await page.get_by_role("button", name="colours").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("status")).to_contain_text("signed out")
        await page.goto(tenant.home)
        await expect(page).to_have_title(re.compile("Sign in"))


async def test_where_events_do_not_come_through_the_page_asks_now_and_then(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    async with reader(browser, server.url, tenant.key) as page:
        await page.route(re.compile(r"/~live(\?.*)?$"), _refuse)
        await page.clock.install()
        await page.goto(tenant.home)
        await expect(page.locator("#pulse")).to_have_text("refreshed every 10 s")
        await tenant.client.put_handler("asked", "python", "return {}")
        for _ in range(3):  # what was just registered may be a second away
            await page.clock.run_for(10_500)
        await expect(page.locator("#board")).to_contain_text("asked")


async def test_times_are_in_the_readers_zone_and_utc_is_in_the_title(
    browser: Browser, server: DaemonProcess, keys: dict[str, str]
) -> None:
    async with reader(browser, server.url, keys["acme"]) as page:
        await page.goto(f"/ui/t/acme/job/{keys['failed']}")
        moment = page.locator("time[data-at]").first
        local, utc = await moment.inner_text(), await moment.get_attribute("title") or ""
        assert utc.endswith("UTC")
        minutes = [int(text[:2]) * 60 + int(text[3:5]) for text in (local[-8:], utc[11:16])]
        assert (minutes[0] - minutes[1]) % (24 * 60) == 330, "Kolkata is five and a half hours ahead"


async def _refuse(route: Route) -> None:
    await route.fulfill(status=503, body="no")


async def _violations(page: Page, *only: str) -> list[str]:
    rules = list(only) or ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found: list[str] = await page.evaluate(_FIND, rules)
    return found


async def _tab_to(page: Page, text: str, selector: str) -> None:
    """Press Tab until something is focused that fits; fails when it cannot be reached."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        focused = page.locator(f"{selector}:focus")
        if await focused.count() and text in (await focused.first.inner_text()):
            return
    pytest.fail(f"{text or selector} cannot be reached by Tab")

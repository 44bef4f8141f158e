"""Whatever a tenant writes stays text: nothing of it runs, hides, or breaks the page."""

import asyncio
import json

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import Tenant
from tests.browser.reader import reader
from tests.support.daemon_process import DaemonProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]  # the browser lives in one event loop

SCRIPT = "</pre></script><script>window.pwned = 1; alert(1)</script><img src=x onerror='window.pwned = 2'>"
TURNED = "user\u202egnp.exe\u2066"
COLOURED = "\x1b[31mred\x1b[0m \x1b]0;title\x07 bell"
LONG = "x" * 50_000
HANDLER = """import json
given = json.loads(payload)
print(given["text"])
if given["do"] == "fail":
    raise ValueError(given["text"])
if given["do"] == "bytes":
    return b"\\xff\\x00\\xfe<script>"
return given["text"].encode()
"""


async def test_scripts_ansi_bidi_and_long_lines_are_inert(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    client = tenant.client
    await client.put_handler("text", "python", HANDLER, options={"max_attempts": 1})
    texts = [SCRIPT, TURNED, COLOURED, LONG]
    rows = [dumps({"do": do, "text": text}) for text in texts for do in ("return", "fail")]
    added = await client.add_jobs("text", [*rows, dumps({"do": "bytes", "text": ""})])
    ids = list(added.ids or ())
    for job_id in ids:
        await client.get_job(job_id, wait_s=30)
    async with reader(browser, server.url, tenant.key) as page:
        await expect(page.get_by_role("link", name="<script>window.pwned").first).to_be_visible()
        for path in ("/failures", "/jobs?code=failed,abandoned", "/type/text"):
            await page.goto(tenant.home + path)
            assert await page.evaluate("window.pwned") is None
        # In the order of `rows`: a result and an error of each text.
        for number, shown in enumerate((SCRIPT, "user⟨U+202E⟩gnp.exe⟨U+2066⟩", "red  bell", "more characters")):
            for job_id in ids[2 * number : 2 * number + 2]:
                await page.goto(f"{tenant.home}/job/{job_id}")
                await expect(page.locator("#result")).to_contain_text(shown)
                await expect(page.get_by_label("Log", exact=True)).to_contain_text(shown)
                assert await page.evaluate("window.pwned") is None
                wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
                assert not wide, "a long line stays in its box"
        await page.goto(f"{tenant.home}/job/{ids[-1]}")
        await expect(page.locator("#result")).to_contain_text("ff 00 fe 3c")
        async with page.expect_download() as download:
            await page.locator("a[href$='/raw/result']").click()
        saved = await (await download.value).path()
        assert await asyncio.to_thread(saved.read_bytes) == b"\xff\x00\xfe<script>"
        # The editor holds it as it is, in a box of its own.
        await page.goto(f"{tenant.home}/type/text/edit?job={ids[1]}")
        assert "window.pwned" in await page.get_by_label("Payload").input_value()
        assert await page.evaluate("window.pwned") is None


@pytest.mark.parametrize("mark", ["\u2028", "\u2029"])
async def test_a_try_comes_back_with_marks_that_a_script_may_take_for_the_end_of_a_line(
    browser: Browser, server: DaemonProcess, tenant: Tenant, mark: str
) -> None:
    await tenant.client.put_handler("size", "python", "return len(payload)")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/size/edit")
        await expect(page.locator(".cm-content")).to_be_visible()
        await page.get_by_label("Payload").fill(f"a{mark}b")
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_label("Result of the try")).to_have_text("3")
        await expect(page.locator("#problem")).to_have_count(0)


def dumps(value: dict[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False)

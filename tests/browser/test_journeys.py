"""What people come for: the first visit, finding out what failed and mending it, steering the service."""

import asyncio
import json
import re

import pytest
from aiohttp import ClientSession
from msgspec import UnsetType
from playwright.async_api import Browser, Dialog, Route, expect

from tests.browser.conftest import Tenant
from tests.browser.reader import reader, write_code
from tests.support.command_line import clean_environ
from tests.support.daemon_process import DaemonProcess
from tests.support.engines import need_language

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]  # the browser lives in one event loop

BROKEN = """import json
order = json.loads(payload)
print("order", order["id"])
return {"twice": order["totl"] * 2}
"""
MENDED = BROKEN.replace("totl", "total")


async def test_the_first_visit_leads_to_a_first_result(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    async with reader(browser, server.url) as page:
        await page.goto("/")
        await expect(page).to_have_title(re.compile("Sign in"))
        await page.get_by_label("Your key").fill("fk_wrong_" + "x" * 32)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("not known")
        await page.get_by_label("Your key").fill(tenant.key)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(server.url + tenant.home)
        commands = await page.locator("pre.cmd code").all_inner_texts()
        assert len(commands) == 3
        await expect(page.locator("#pulse")).to_have_text("live")
        for command in commands:
            await run_shell(command, FUNCTORY_KEY=tenant.key)
        # Posted by curl, and the page shows it without being loaded again.
        row = page.locator("#board tr", has_text="hello")
        await expect(row.locator("td").nth(3)).to_have_text("2")
        cookies = await page.context.cookies()
        assert all(tenant.key not in cookie.get("value", "") for cookie in cookies)
        session = next(cookie for cookie in cookies if cookie.get("name") == "functory-session")
        assert (session.get("httpOnly"), session.get("sameSite")) == (True, "Strict")


async def test_a_failing_handler_is_found_mended_and_its_jobs_replayed(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("order", "python", BROKEN, options={"max_attempts": 1})
    await tenant.client.add_jobs("order", ['{"id": 1, "total": 4}', '{"id": 2, "total": 5}', '{"id": 3, "total": 6}'])
    async with reader(browser, server.url, tenant.key) as page:
        # What failed, and why.
        group = page.get_by_role("link", name="KeyError: 'totl'").first
        await expect(group).to_be_visible()
        await expect(page.locator("tr", has=group).locator(".num")).to_have_text("3")
        await group.click()
        await expect(page.locator("#result")).to_contain_text("Traceback")
        await expect(page.locator("#result")).to_contain_text('return {"twice": order["totl"] * 2}')
        await expect(page.get_by_label("Log", exact=True)).to_contain_text("order ")
        # Fix it, trying it on the payload that failed.
        await page.get_by_role("link", name="Fix the handler with this payload").click()
        await expect(page.get_by_label("Payload")).to_have_value(re.compile('"total"'))
        await write_code(page, "return (")
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("alert")).to_contain_text("Line 1")
        await write_code(page, MENDED)
        await page.get_by_role("button", name="Try it").click()
        await expect(page.locator("#tried .st-ok")).to_be_visible()
        await expect(page.get_by_label("Result of the try")).to_have_text(re.compile(r"8|10|12"))
        await expect(page.locator("#body")).to_have_value(MENDED)
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page.get_by_role("status")).to_contain_text("Saved and activated")
        await page.get_by_role("link", name="Changes of version 2").click()
        await expect(page.locator(".d-added")).to_contain_text("total")
        await expect(page.locator(".d-removed")).to_contain_text("totl")
        # Queue them again, and see them go green.
        await page.get_by_role("link", name="Replay").click()
        await page.get_by_label("Type").fill("order")
        await page.get_by_role("button", name="Dry run").click()
        await expect(page.get_by_role("heading", name="3 jobs match")).to_be_visible()
        await page.get_by_role("button", name="Queue 3 jobs again").click()
        await expect(page.locator("#all-green")).to_be_visible()
        await expect(page.locator("progress")).to_have_attribute("value", "3")
        await page.get_by_role("link", name="Scoreboard").click()
        row = page.locator("#board tr", has_text="order")
        await expect(row.locator("td").nth(3)).to_have_text("3")
        # And back again.
        await row.get_by_role("link", name="order").click()
        await page.get_by_role("link", name="Changes of version 1").click()
        await page.get_by_role("button", name="Activate this version").click()
        await expect(page.get_by_role("status")).to_contain_text("active again")
        await expect(page.locator("tr", has_text="copy of 1")).to_contain_text("active")


async def test_a_try_keeps_the_page_and_no_result_outlives_its_code(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    await tenant.client.put_handler("upper", "python", "return payload.upper()")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/upper/edit")
        await expect(page.locator(".tok-keyword").first).to_have_text("return")
        await expect(page.locator("#body")).to_be_hidden()
        await page.evaluate("window.isTheSamePage = true")
        await page.get_by_label("Payload").fill("ada")
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_label("Result of the try")).to_have_text('"ADA"')
        await page.get_by_label("Payload").fill("grace")
        await expect(page.locator("#tried")).to_have_count(0)
        await write_code(page, "x = 1\nreturn (")
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_role("alert")).to_contain_text("Line 2")
        await expect(page.locator(".cm-error-line")).to_have_text("return (")
        await write_code(page, "text = int(payload)\nreturn payload.lower()")
        await expect(page.locator("#problem")).to_have_count(0)
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_label("Result of the try")).to_contain_text("ValueError")
        await expect(page.locator(".cm-error-line")).to_have_text("text = int(payload)")
        await write_code(page, "return payload.lower()")
        await expect(page.locator(".cm-error-line")).to_have_count(0)
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_label("Result of the try")).to_have_text('"grace"')
        assert await page.evaluate("window.isTheSamePage") is True
        await page.context.clear_cookies()  # signed out meanwhile: it is told, and nothing that was typed is lost
        await page.get_by_role("button", name="Try it").click()
        await expect(page.get_by_role("alert")).to_contain_text("You were signed out.")
        await expect(page.locator("#body")).to_have_value("return payload.lower()")
    assert (await tenant.client.get_handler("upper")).version == 1, "a try never saves"


STEPS = """
const step = document.getElementById("step");
new MutationObserver(() => { sessionStorage.steps = (sessionStorage.steps || "") + step.textContent + "|"; })
  .observe(step, { childList: true });
"""


async def test_steps_are_shown_while_a_save_waits(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    await tenant.client.put_handler("slow", "python", "return 1")
    location = f"{tenant.home}/type/slow?note=saved"
    last = {"status": 303, "answer": {"location": location}}
    body = f': hello\n\nevent: progress\ndata: "<b>fetched</b> a"\n\nevent: done\ndata: {json.dumps(last)}\n\n'
    asked: list[str] = []

    async def answer(route: Route) -> None:
        if route.request.method != "POST":
            return await route.continue_()
        asked.append(route.request.headers["accept"])
        return await route.fulfill(content_type="text/event-stream; charset=utf-8", body=body)

    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/slow/edit")
        await expect(page.locator(".tok-keyword").first).to_have_text("return")
        await page.route("**/edit", answer)
        await page.evaluate(STEPS)
        await page.get_by_role("button", name="Save and activate").click()
        await expect(page).to_have_url(server.url + location)
        assert (await page.evaluate("sessionStorage.steps")).startswith("<b>fetched</b> a|")
    assert asked[0].startswith("text/event-stream")


CODE = {
    "python": ("return payload.upper()  # loud", "return", "# loud"),
    "node": ("(payload) => { return payload; } // as it is", "return", "// as it is"),
    "sh": ("if true; then cat; fi # as it is", "if", "# as it is"),
    "php": (
        "# 'as' it is\nforeach ([$payload, 'it\\'s', 3] as $one) { return strtoupper($one); }",
        "foreach",
        "# 'as' it is",
    ),
}


@pytest.mark.parametrize("lang", CODE)
async def test_code_is_highlighted(browser: Browser, server: DaemonProcess, tenant: Tenant, lang: str) -> None:
    need_language(lang)
    body, keyword, comment = CODE[lang]
    await tenant.client.put_handler("code", lang, body)
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/code/edit")
        await expect(page.locator(".tok-keyword").first).to_have_text(keyword)
        await expect(page.locator(".tok-comment")).to_have_text([comment])


async def test_a_job_is_posted_by_a_form(browser: Browser, server: DaemonProcess, tenant: Tenant) -> None:
    await tenant.client.put_handler("echo", "python", "return payload")
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/type/echo")
        await page.get_by_role("link", name="Post a job").click()
        await page.get_by_label("Payload").fill("two\nlines")
        await page.get_by_label("Delay").fill("soon")
        await page.get_by_role("button", name="Post job").click()
        await expect(page.get_by_role("alert")).to_contain_text("number of seconds")
        await expect(page.get_by_label("Payload")).to_have_value("two\nlines")
        await page.get_by_label("Delay").fill("")
        await page.get_by_role("button", name="Post job").click()
        await expect(page.get_by_role("status")).to_contain_text("Job posted")
        await expect(page.locator("#result")).to_have_text('"two\\nlines"')


async def test_the_operator_pauses_a_tenant_and_its_jobs_wait(
    browser: Browser, server: DaemonProcess, operator_key: str, tenant: Tenant
) -> None:
    await tenant.client.put_handler("work", "python", "return {}")
    async with reader(browser, server.url, operator_key) as first:
        await expect(first.locator(".isolation")).to_contain_text("isolation L0")
        page = await first.context.new_page()  # one that may ask
        page.on("dialog", Dialog.accept)
        await page.goto(f"/ui/operator?q={tenant.name}")
        await page.get_by_role("link", name=tenant.name, exact=True).click()
        await page.get_by_role("button", name="Pause tenant").click()
        await expect(page.get_by_role("status")).to_contain_text("Paused")
        added = await submit_as_operator(server, operator_key, tenant.name, "work")
        await page.goto(f"{tenant.home}/job/{added}")
        await expect(page.locator("#live .banner")).to_contain_text("the operator has suspended the tenant")
        await page.goto(f"/ui/operator/tenants/{tenant.name}")
        await page.get_by_role("button", name="Resume tenant").click()
        await page.goto(f"{tenant.home}/job/{added}")
        await expect(page.locator("h1 + .st-ok")).to_be_visible()
        await page.goto(f"/ui/operator/audit?tenant={tenant.name}")
        await expect(page.get_by_role("row", name=re.compile("tenant.update"))).to_have_count(2)


async def test_the_operator_makes_a_tenant_and_a_key_that_works(
    browser: Browser, server: DaemonProcess, operator_key: str
) -> None:
    async with reader(browser, server.url, operator_key) as page:
        await page.get_by_label("Name of a new tenant").fill("newcomer")
        await page.get_by_role("button", name="Create").click()
        await page.get_by_label("Label for a new key").fill("first")
        await page.get_by_role("button", name="Create key").click()
        key = await page.locator("#new-key").inner_text()
        await page.get_by_label("Weight").fill("7")
        await page.get_by_label("Jobs stored").fill("1000")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_label("Weight")).to_have_value("7")
    async with reader(browser, server.url, key) as page:
        await expect(page.get_by_text("three commands to your first result")).to_be_visible()


async def test_a_job_is_watched_cancelled_and_run_again(
    browser: Browser, server: DaemonProcess, tenant: Tenant
) -> None:
    added = await tenant.client.add_jobs("later", ["x"], delay_s=3600)
    assert not isinstance(added.ids, UnsetType)
    job_id = added.ids[0]
    async with reader(browser, server.url, tenant.key) as page:
        await page.goto(f"{tenant.home}/job/{job_id}")
        await expect(page.locator(".banner")).to_contain_text("deferred until")
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator("h1 + .st-cancelled")).to_be_visible()
        await tenant.client.put_handler("later", "python", "return payload")
        await page.get_by_role("button", name="Run again").click()
        # It runs at once: the page hears of it, and shows the result.
        await expect(page.locator("#result")).to_have_text('"x"')


async def run_shell(command: str, **environ: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-euc", command.replace("curl ", "curl -fsS "), env=clean_environ() | environ,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0, (command, out)


async def submit_as_operator(server: DaemonProcess, key: str, tenant: str, type_name: str) -> str:
    address = f"{server.url}/add?jobtype={type_name}&client={tenant}"
    headers = {"Authorization": f"Bearer {key}"}
    async with ClientSession() as session, session.post(address, headers=headers, data=b"x") as answer:
        ids: list[str] = (await answer.json())["ids"]
    return ids[0]

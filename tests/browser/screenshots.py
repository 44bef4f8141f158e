"""Pictures of every page, light, dark and narrow: `make screenshots`.

A real daemon on a store that has lived through an hour (`past.py`). All pictures go to the folder that is named; those
that the documentation shows are also put into docs/images.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from playwright.async_api import Browser, Page

from functory.client import Client
from store.url import open_store
from tests.browser.past import live_through_an_hour
from tests.support.chromium import COMMAND, open_browser
from tests.support.daemon_process import DaemonProcess, daemon

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"


class Shot(NamedTuple):
    name: str
    path: str
    who: str = "acme"


SHOTS: Final = (
    Shot("signin", "/ui/signin", ""),
    Shot("scoreboard", "/ui/t/acme"),
    Shot("empty", "/ui/t/hooli", "hooli"),
    Shot("jobtype", "/ui/t/acme/type/thumbnail"),
    Shot("job", "/ui/t/acme/job/{failed}"),
    Shot("jobs", "/ui/t/acme/jobs?code=failed,abandoned"),
    Shot("waiting", "/ui/t/acme/jobs?state=waiting"),
    Shot("failures", "/ui/t/acme/failures"),
    Shot("editor", "/ui/t/acme/type/thumbnail/edit?job={failed}"),
    Shot("version", "/ui/t/acme/type/thumbnail/version/2"),
    Shot("replay", "/ui/t/acme/replay?type=thumbnail&failed=yes&abandoned=yes&age=1d&limit=1000&rate_per_s=50&look=1"),
    Shot("operator", "/ui/operator", "operator"),
    Shot("tenant", "/ui/operator/tenants/globex", "operator"),
    Shot("queues", "/ui/operator/queues", "operator"),
    Shot("daemons", "/ui/operator/daemons", "operator"),
    Shot("audit", "/ui/operator/audit", "operator"),
    Shot("trouble", "/ui/t/acme/job/nonsense"),
)
SHOWN: Final = (
    "scoreboard-light",
    "scoreboard-dark",
    "job-light",
    "editor-light",
    "operator-dark",
    "scoreboard-narrow",
)
"""What the documentation shows."""


async def main(folder: Path) -> None:
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        data_dir = Path(scratch) / "data"
        data_dir.mkdir()
        async with open_store(f"sqlite:///{data_dir}/functory.db") as store:
            failed = await live_through_an_hour(store, int(time.time() * 1000))
        level = {"min_isolation": "auto", "all_tenants_trusted": "false"}
        async with daemon(data_dir, level) as server, open_browser() as browser:
            keys = await _keys(server)
            for scheme, width in (("light", 1280), ("dark", 1280), ("narrow", 390)):
                await _take_all(browser, server, keys, folder, failed, scheme, width)
    IMAGES.mkdir(exist_ok=True)
    for name in SHOWN:
        shutil.copy(folder / f"{name}.png", IMAGES / f"{name}.png")


async def _keys(server: DaemonProcess) -> dict[str, str]:
    operator_key = server.operator_key
    async with Client(server.url, operator_key) as operator:
        await operator.create_tenant("hooli")
        keys = {name: (await operator.create_key(name)).key for name in ("acme", "hooli")}
    return {**keys, "operator": operator_key}


async def _take_all(
    browser: Browser, server: DaemonProcess, keys: dict[str, str], folder: Path, failed: str, scheme: str, width: int
) -> None:
    for who in ("", "acme", "hooli", "operator"):
        context = await browser.new_context(
            viewport={"width": width, "height": 844 if width < 700 else 800},
            color_scheme="dark" if scheme == "dark" else "light",
            timezone_id="Europe/Berlin",
        )
        page = await context.new_page()
        if who:
            await sign_in(page, server.url, keys[who])
        for shot in SHOTS:
            if shot.who == who:
                await page.goto(server.url + shot.path.format(failed=failed))
                await page.screenshot(path=folder / f"{shot.name}-{scheme}.png", full_page=True)
        await context.close()


async def sign_in(page: Page, url: str, key: str) -> None:
    await page.goto(f"{url}/ui/signin")
    await page.get_by_label("Your key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(lambda address: "/signin" not in address)


if __name__ == "__main__":
    if shutil.which(COMMAND) is None:
        sys.exit("screenshots: chromium is missing: install it with `make system`")
    asyncio.run(main(Path(sys.argv[1])))

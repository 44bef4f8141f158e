"""Pictures of every page, light, dark and narrow: `make screenshots`.

A real daemon on a store that has lived through an hour (`past.py`). All pictures go to the folder that is named; those
that the documentation shows are also put into docs/images.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

from playwright.async_api import Browser

from functory.client import Client
from store.url import open_store
from tests.browser.past import live_through_an_hour
from tests.browser.places import PLACES, deliver, make_alerts, make_schedules, make_webhooks, retrying_job
from tests.browser.reader import sign_in
from tests.support.chromium import COMMAND, open_browser
from tests.support.daemon_process import DaemonProcess, daemon

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"


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
            async with Client(server.url, keys["acme"], "acme") as acme:
                await make_schedules(acme)
                await make_alerts(acme)
                await make_webhooks(acme)
                await deliver(server.url)
                jobs = {"failed": failed, "retrying": await retrying_job(acme)}
            for scheme, width in (("light", 1280), ("dark", 1280), ("narrow", 390)):
                await _take_all(browser, server, keys, folder, jobs, scheme, width)
            await _publish(browser, folder)


_TO_WEBP: Final = """async (png) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").drawImage(image, 0, 0);
  const bytes = await (await canvas.convertToBlob({ type: "image/webp", quality: 0.9 })).bytes();
  return bytes.toBase64();
}"""


async def _publish(browser: Browser, folder: Path) -> None:
    """The pictures of the documentation, as WebP: a third of the size."""
    await asyncio.to_thread(IMAGES.mkdir, exist_ok=True)
    page = await browser.new_page()
    for name in SHOWN:
        png = b64encode(await asyncio.to_thread((folder / f"{name}.png").read_bytes)).decode()
        webp = b64decode(await page.evaluate(_TO_WEBP, png))
        await asyncio.to_thread((IMAGES / f"{name}.webp").write_bytes, webp)


async def _keys(server: DaemonProcess) -> dict[str, str]:
    operator_key = server.operator_key
    async with Client(server.url, operator_key) as operator:
        await operator.create_tenant("hooli")
        keys = {name: (await operator.create_key(name)).key for name in ("acme", "hooli")}
    return {**keys, "operator": operator_key}


async def _take_all(
    browser: Browser,
    server: DaemonProcess,
    keys: dict[str, str],
    folder: Path,
    jobs: dict[str, str],
    scheme: str,
    width: int,
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
        for place in PLACES:
            if place.who == who:
                await page.goto(server.url + place.path.format(**jobs))
                await page.screenshot(path=folder / f"{place.name}-{scheme}.png", full_page=True)
        await context.close()


if __name__ == "__main__":
    if shutil.which(COMMAND) is None:
        sys.exit("screenshots: chromium is missing: install it with `make system`")
    asyncio.run(main(Path(sys.argv[1])))

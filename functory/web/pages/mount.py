"""All pages and their files on the application."""

import asyncio
from typing import Final

from aiohttp import web

from functory.operations.sessions import Sessions
from functory.web.http.answers import problem
from functory.web.http.endpoint import Web
from functory.web.pages import (
    alerts,
    board,
    bulk,
    consumers,
    editor,
    failures,
    job,
    job_list,
    jobtype,
    operator,
    post_job,
    rates,
    replay,
    schedule_form,
    schedules,
    secrets,
    signin,
    tenants,
    version,
    webhooks,
    workers,
)
from functory.web.pages.allowed_origins import AllowedOrigins
from functory.web.pages.assets import load_assets
from functory.web.pages.call import PageTools
from functory.web.pages.declaration import LIVE
from functory.web.pages.endpoint import PageEndpoint
from functory.web.pages.live import LiveHub
from functory.web.pages.recent import Recent
from functory.web.pages.throttle import SignInThrottle
from functory.web.pages.unknown import UnknownPages

PAGES: Final = [
    page
    for module in (
        signin,
        board,
        job_list,
        failures,
        consumers,
        jobtype,
        post_job,
        job,
        editor,
        version,
        bulk,
        replay,
        schedules,
        schedule_form,
        workers,
        rates,
        secrets,
        alerts,
        webhooks,
        operator,
        tenants,
    )
    for page in module.pages.all
]
_SHOWN: Final = frozenset(page.path for page in PAGES if page.method == "GET" and page.is_page)
_FOR_EVER: Final = "public, max-age=31536000, immutable"


def mount_pages(app: web.Application, state: Web) -> None:
    """Add all pages. Files are read when the application starts, off the event loop; live pages end when it stops."""
    settings = state.settings
    hub = LiveHub(settings.live_tick_s)
    tools = PageTools(
        web=state,
        origins=AllowedOrigins(settings.public_url, settings.host),
        sessions=Sessions(state.service, state.keys),
        throttle=SignInThrottle(),
        recent=Recent(state.service),
        hub=hub,
    )

    async def start(_: web.Application) -> None:
        await asyncio.to_thread(load_assets)

    async def stop(_: web.Application) -> None:
        await hub.close()

    app.on_startup.append(start)
    app.on_shutdown.append(stop)
    for page in PAGES:
        endpoint = PageEndpoint(tools, page, _parts_beyond_a_page(page.path))
        app.router.add_route(page.method, page.path, endpoint.__call__)
        if page.live:
            app.router.add_route("GET", page.path + LIVE, endpoint.live)
    app.router.add_route("GET", "/ui/static/{digest}/{name}", serve_static)
    app.router.add_route("*", "/ui/{path:.*}", UnknownPages(tools).__call__)


def _parts_beyond_a_page(path: str) -> int:
    """How many parts a path has more than the page that it is below: where a reader of its answer can go on."""
    parts = 0
    while path not in _SHOWN:
        path = path.rpartition("/")[0]
        parts += 1
    return parts


async def serve_static(request: web.Request) -> web.StreamResponse:
    """Serve a file from memory. Under an older hash it is not found; the page that asks for it is old too."""
    assets = load_assets()
    file = assets.static.get(request.match_info["name"])
    if file is None or request.match_info["digest"] != assets.digest:
        return problem(404, "no_such_path", "there is nothing at this path")
    headers = {
        "Content-Type": file.content_type,
        "Cache-Control": _FOR_EVER,
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Content-Security-Policy": "default-src 'none'",
    }
    return web.Response(body=file.body, headers=headers)

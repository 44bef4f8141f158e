"""The application: all routes on one service. listener.py puts it on a socket."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
from aiohttp import web

from functory.operations.keyring import KeyRing
from functory.operations.service import Service
from functory.web.api import (
    add,
    admin,
    alerts,
    consumers,
    control,
    deliveries,
    handlers,
    jobs,
    legacy,
    logs,
    meta,
    results,
    schedules,
    secrets,
    waiting,
    webhooks,
    workers,
)
from functory.web.api.docs_page import build_docs
from functory.web.api.openapi import build_openapi
from functory.web.http.description import Described, Description
from functory.web.http.edge import Edge
from functory.web.http.endpoint import Endpoint, Web
from functory.web.http.metrics import RequestCounts
from functory.web.http.path_index import PathIndex
from functory.web.http.request_rates import RequestRates
from functory.web.http.routes import Route
from functory.web.http.settings import WebSettings
from functory.web.http.unknown_paths import UnknownPaths
from functory.web.pages.mount import mount_pages

ROUTES: Final[Sequence[Route]] = [
    route
    for module in (
        add,
        jobs,
        waiting,
        workers,
        logs,
        legacy,
        handlers,
        results,
        schedules,
        control,
        consumers,
        secrets,
        alerts,
        webhooks,
        deliveries,
        admin,
        meta,
    )
    for route in module.routes.all
]
"""Routes in the order in which aiohttp tries them."""

STATUS_ROUTES: Final = [route for route in meta.routes.all if route.path in ("/healthz", "/readyz", "/metrics")]

WEB: Final = web.AppKey("web", Web)
PATHS: Final = web.AppKey("paths", PathIndex[Endpoint])
"""The same routes, for listener.py, which passes requests to their endpoints itself."""


def make_app(service: Service, settings: WebSettings | None = None) -> web.Application:
    """Make the application. Nothing is started or read; it belongs to the event loop that runs it."""
    settings = settings or WebSettings()
    counts = RequestCounts()
    state = Web(
        service=service,
        settings=settings,
        keys=KeyRing(service),
        buckets=RequestRates(),
        counts=counts,
        edge=Edge(counts, settings.trusted_proxies),
        description=Description(_describe),
    )
    app = _routed(state, ROUTES)
    mount_pages(app, state)

    async def end_streams(_: web.Application) -> None:
        await state.streams.close()

    app.on_shutdown.append(end_streams)
    return _completed(app)


def _describe() -> Described:
    openapi = build_openapi(ROUTES)
    return Described(msgspec.json.encode(openapi), build_docs(openapi))


def make_status_app(app: web.Application, settings: WebSettings) -> web.Application:
    """Health and metrics of the same service, without a key: for a port that only probes and scrapers can reach."""
    return _completed(_routed(replace(app[WEB], settings=replace(settings, is_metrics_public=True)), STATUS_ROUTES))


def _routed(state: Web, routes: Sequence[Route]) -> web.Application:
    # read_body bounds bodies after decompression; aiohttp's own bound would apply before.
    app = web.Application(client_max_size=0)
    app[WEB] = state
    app[PATHS] = paths = PathIndex[Endpoint]()
    for route in routes:
        endpoint = Endpoint(state, route)
        app.router.add_route(route.method, route.path, endpoint.__call__)
        paths.add(route.method, route.path, endpoint)
    return app


def _completed(app: web.Application) -> web.Application:
    """Whatever has no route gets an answer of ours; aiohttp tries routes in their order, so this is the last."""
    app.router.add_route("*", "/{path:.*}", UnknownPaths(app[WEB]).__call__)
    return app

"""The application: all routes on one service. `listen` (listen.py) puts it on a socket."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
from aiohttp import web

from functory.operations.keyring import KeyRing
from functory.operations.service import Service
from functory.web import admin, control, handlers, jobs, legacy, meta, results
from functory.web.buckets import RequestBuckets
from functory.web.docs_page import build_docs
from functory.web.edge import Edge
from functory.web.elsewhere import Elsewhere
from functory.web.endpoint import Endpoint, Web
from functory.web.metrics import RequestCounts
from functory.web.openapi import build_openapi
from functory.web.pages.mount import mount_pages
from functory.web.routes import Route
from functory.web.settings import WebSettings

ROUTES: Final[Sequence[Route]] = [
    route for module in (jobs, legacy, handlers, results, control, admin, meta) for route in module.routes.all
]
"""aiohttp tries them in this order: the one that every job passes comes first."""

STATUS_ROUTES: Final = [route for route in meta.routes.all if route.path in ("/healthz", "/readyz", "/metrics")]

WEB: Final = web.AppKey("web", Web)
ADD_JOBS: Final = web.AppKey("add_jobs", Endpoint)
"""The endpoint that `listen` gives requests to without a look at the other routes."""


def make_app(service: Service, settings: WebSettings | None = None) -> web.Application:
    """Nothing is started and nothing is read; the application belongs to the event loop that runs it."""
    settings = settings or WebSettings()
    description = build_openapi(ROUTES)
    counts = RequestCounts()
    state = Web(
        service=service,
        settings=settings,
        keys=KeyRing(service, life_s=settings.key_life_s, grace_s=settings.key_grace_s),
        buckets=RequestBuckets(),
        counts=counts,
        edge=Edge(counts, settings.trusted_proxies),
        openapi=msgspec.json.encode(description),
        docs=build_docs(description),
    )
    return _routed(state, ROUTES)


def make_status_app(app: web.Application, settings: WebSettings) -> web.Application:
    """Health and metrics of the same service, without a key: for a port that only probes and scrapers reach."""
    return _routed(replace(app[WEB], settings=replace(settings, is_metrics_public=True)), STATUS_ROUTES)


def _routed(state: Web, routes: Sequence[Route]) -> web.Application:
    # Bodies are bounded by read_body, after decompression; aiohttp's own bound would see them before.
    app = web.Application(client_max_size=0)
    app[WEB] = state
    for route in routes:
        endpoint = Endpoint(state, route)
        app.router.add_route(route.method, route.path, endpoint.__call__)
        if route.call is jobs.add_jobs:
            app[ADD_JOBS] = endpoint
    mount_pages(app, state)
    app.router.add_route("*", "/{path:.*}", Elsewhere(state).__call__)
    return app

"""Routes about the service itself: health, readiness, metrics, the description of the interface."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from functory.operations.service import Service
from functory.web import metrics
from functory.web.answers import answer, json_answer, json_bytes
from functory.web.docs_page import DOCS_POLICY
from functory.web.endpoint import Call
from functory.web.routes import Routes
from functory.wire.admin import HealthAnswer
from store.base import TypeCounters, WaitingType
from store.errors import StoreUnavailable

routes = Routes()

_QUEUE_TIMEOUT_S: Final = 5.0
"""Scrapers give up after ten seconds, and then miss everything."""


@routes.add("GET", "/healthz", scope=None, summary="Whether the daemon is alive", answer=HealthAnswer)
async def get_health(call: Call) -> web.Response:
    health = call.service.control.health()
    return _health(health.is_live, health.problems)


@routes.add("GET", "/readyz", scope=None, summary="Whether the daemon can take requests", answer=HealthAnswer)
async def get_readiness(call: Call) -> web.Response:
    health = call.service.control.health()
    return _health(health.is_ready, health.problems)


@routes.add("GET", "/metrics", scope="metrics", summary="Numbers for Prometheus", answer=str)
async def get_metrics(call: Call) -> web.Response:
    """Without the queue's numbers when the store cannot be asked: that is when the others are needed most."""
    service = call.service
    now_ms = service.now_ms()
    counters, waiting = await _queue(service, now_ms)
    text = metrics.render(call.web.counts, service.control.gauges(), service.journal.stats(), counters, waiting, now_ms)
    return answer(text.encode(), metrics.CONTENT_TYPE)


async def _queue(service: Service, now_ms: int) -> tuple[Sequence[TypeCounters], Sequence[WaitingType]]:
    try:
        async with asyncio.timeout(_QUEUE_TIMEOUT_S):
            counters = await service.store.get_counters(None, now_ms=now_ms)
            return counters, await service.store.get_waiting_jobtypes(now_ms=now_ms)
    except (StoreUnavailable, TimeoutError):
        return (), ()


@routes.add("GET", "/openapi.json", scope=None, summary="This interface as OpenAPI 3.1", answer=dict)
async def get_openapi(call: Call) -> web.Response:
    return json_bytes(call.web.openapi)


@routes.add("GET", "/docs", scope=None, summary="This interface as a page", answer=str)
async def get_docs(call: Call) -> web.Response:
    page = answer(call.web.docs, "text/html; charset=utf-8")
    page.headers["Content-Security-Policy"] = DOCS_POLICY
    return page


def _health(is_good: bool, problems: dict[str, str]) -> web.Response:
    """The names of problems only: their texts may tell strangers of files and hosts."""
    return json_answer(HealthAnswer("ok" if is_good else "failing", sorted(problems)), 200 if is_good else 503)

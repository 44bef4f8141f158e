"""Routes about the service itself: health, readiness, metrics, the description of the interface."""

from aiohttp import web

from functory.operations.figures import read_metrics
from functory.operations.tenant_metrics import tenant_metrics
from functory.web.api.docs_page import DOCS_POLICY
from functory.web.http import metrics
from functory.web.http.answers import answer, json_answer, json_bytes
from functory.web.http.endpoint import Call
from functory.web.http.prometheus_text import CONTENT_TYPE
from functory.web.http.routes import Routes
from functory.web.http.tenant_metrics import render_tenant
from functory.wire.admin import HealthAnswer
from functory.wire.scoreboard import MetricsQuery

routes = Routes()


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
    found = await read_metrics(call.service)
    text = metrics.render(
        call.web.counts, found.gauges, found.journal_stats, found.counters, found.waiting, found.now_ms
    )
    text += metrics.render_egress(found.egress) + metrics.render_unasked(found.unasked)
    text += metrics.render_arrivals(call.service.arrivals.totals)
    return answer(text.encode(), CONTENT_TYPE)


@routes.add("GET", "/{tenant}/metrics", scope="read", summary="The tenant's numbers for Prometheus", answer=str)
async def get_tenant_metrics(call: Call, query: MetricsQuery) -> web.Response:
    """As the scoreboard: once for all who ask at the same time, and in slices."""
    text = await call.web.looks.ask(call.tenant, ("metrics", query.type), lambda: _tenant_metrics(call, query))
    return answer(text, CONTENT_TYPE)


async def _tenant_metrics(call: Call, query: MetricsQuery) -> bytes:
    return await render_tenant(await tenant_metrics(call.service, call.principal, query.type))


@routes.add("GET", "/openapi.json", scope=None, summary="This interface as OpenAPI 3.1", answer=dict)
async def get_openapi(call: Call) -> web.Response:
    return json_bytes((await call.web.description.get()).openapi)


@routes.add("GET", "/docs", scope=None, summary="This interface as a page", answer=str)
async def get_docs(call: Call) -> web.Response:
    page = answer((await call.web.description.get()).page, "text/html; charset=utf-8")
    page.headers["Content-Security-Policy"] = DOCS_POLICY
    return page


def _health(is_good: bool, problems: dict[str, str]) -> web.Response:
    """Only the names of problems: their texts could tell strangers about files and hosts."""
    return json_answer(HealthAnswer("ok" if is_good else "failing", sorted(problems)), 200 if is_good else 503)
